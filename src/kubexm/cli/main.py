"""The `kubexm` command: the table of its verbs, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from kubexm.cli.lazy import LazyGroup, Verb
from kubexm.cli.pipelines import pipeline_verbs
from kubexm.cli.settings import Settings, global_options

__all__ = ["VERBS", "main", "root_command"]

_VERBS = (
    Verb("facts", "kubexm.cli.facts", "Show what kubexm sees of the hosts.", "Hosts", remote=True),
    Verb("exec", "kubexm.cli.fleet", "Run a command on many hosts at once.", "Hosts"),
    Verb(
        "kubeconfig",
        "kubexm.cli.kubeconfig",
        "Print the cluster's kubeconfig, or merge it into yours.",
        "Clusters",
        remote=True,
    ),
    Verb("backup", "kubexm.cli.backup", "Back up a cluster; list, verify and prune backup sets.", "Clusters"),
    Verb("plan", "kubexm.cli.plan", "Show what would be done, and save it for review.", "Plans and runs", remote=True),
    Verb("apply", "kubexm.cli.apply", "Run a saved plan, exactly as reviewed.", "Plans and runs", remote=True),
    Verb("runs", "kubexm.cli.runs", "List, show, draw, resume and cancel runs.", "Plans and runs", remote=True),
    Verb("serve", "kubexm.cli.serve", "Serve REST, tasks and a store; tokens and keys of a server.", "Server"),
    Verb("audit", "kubexm.cli.audit", "Check what was written down of who did what.", "Server"),
    Verb("config", "kubexm.cli.config", "Write, check and describe cluster.yaml.", "Before you start", remote=True),
    Verb("bundle", "kubexm.cli.bundle", "Make, check and push bundles for hosts without internet.", "Before you start"),
    Verb(
        "lab",
        "kubexm.cli.lab",
        "Boot real hosts on this machine to try things on.",
        "Before you start",
        extensions=("kubexm.cli.lab_bundle",),
    ),
    Verb("version", "kubexm.cli.version", "Show kubexm's version.", "Before you start"),
)


VERBS = pipeline_verbs(_VERBS)
"""Every verb: those of pipelines first, in the order of the catalog."""


class _Root(LazyGroup):
    verbs = VERBS


def root_command() -> Any:
    """The command `kubexm` with the names of its verbs; a verb's own module is imported when it is resolved."""
    root = typer.Typer(
        cls=_Root,
        help="From a cluster.yaml and SSH access to a working Kubernetes cluster, and through its life.",
        epilog="Global options may stand anywhere on the line. `kubexm VERB --help` tells more about each.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    root.callback()(global_options)
    return typer.main.get_command(root)


def _start_quickly() -> None:
    """Importing makes many objects and no garbage, and pydantic would look through all packages for plugins to load.

    At the end nobody looks for garbage among them: that would take as long as a quarter of all imports.
    """
    gc.set_threshold(50_000, 10, 10)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")


def _print_anything() -> None:
    """Escapes what the encoding of a stream cannot express: output must not end a command half way."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command line and exits."""
    _start_quickly()
    _print_anything()
    settings = Settings()
    try:
        try:
            root_command().main(arguments, prog_name="kubexm", obj=settings)
        finally:
            sys.stdout.flush()  # here an error can still be reported
    except Exception as error:  # noqa: BLE001 - the last place where an error can be made readable
        from kubexm.cli.report import report

        sys.exit(report(error, debug=settings.debug))
    sys.exit(0)
