"""`kubexm config`: a file to start from, a check of a file, the schema for editors. Touches no host.

Everything heavy is imported inside the commands, so that `kubexm --help` stays fast.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.options import File
from kubexm.cli.output import Shown, show_data
from kubexm.cli.report import show_problems

if TYPE_CHECKING:
    from datetime import date

    from kubexm.config import Loaded, Problem

__all__ = ["app", "today"]

app = typer.Typer(help="Write, check and describe cluster.yaml.", no_args_is_help=True)

_BAD_CONFIG = 2


class Topology(StrEnum):
    """What `config init` can print."""

    SINGLE = "single"
    HA = "ha"
    AIRGAP = "airgap"


class Data(StrEnum):
    """How data is printed."""

    JSON = "json"
    YAML = "yaml"


@app.command()
def init(
    topology: Annotated[
        Topology, typer.Option(help="single: one machine. ha: three control planes and workers. airgap: from a bundle.")
    ] = Topology.SINGLE,
    name: Annotated[str, typer.Option(help="Name of the cluster.")] = "",
) -> None:
    """Print a commented cluster.yaml to start from."""
    from kubexm.config import ConfigErrors, loads
    from kubexm.config.starters import starter
    from kubexm.errors import UsageError

    text = starter(topology, name=name)
    try:
        loads(text, name="cluster.yaml")
    except ConfigErrors as error:
        problem = error.problems[0]
        raise UsageError(f"--name: {problem.message}", hint=problem.hint) from None
    typer.echo(text, nl=False)


@app.command()
def validate(
    file: Annotated[
        str, typer.Option("--file", "-f", help="The file to check; `-` reads standard input.")
    ] = "cluster.yaml",
    output: Annotated[Shown, typer.Option("--output", "-o", help="How to show the result.")] = Shown.TABLE,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
) -> None:
    """Check cluster.yaml: all problems at once, each with its line. No host is touched."""
    from kubexm.config import ConfigErrors

    loaded: Loaded | None = None
    problems: tuple[Problem, ...] = ()
    try:
        loaded = _load(file)
        warnings = loaded.warnings
    except ConfigErrors as error:
        problems, warnings = error.problems, error.warnings
    failed = bool(problems) or (strict and bool(warnings))
    if output is Shown.TABLE:
        show_problems([*problems, *warnings])
        if loaded is not None and not failed:
            typer.echo(_summary(loaded))
    else:
        result = {"valid": not failed, "problems": [problem.as_json() for problem in (*problems, *warnings)]}
        show_data(result, output)
    if failed:
        raise typer.Exit(_BAD_CONFIG)


@app.command()
def schema(
    output: Annotated[Data, typer.Option("--output", "-o", help="How to print it.")] = Data.JSON,
) -> None:
    """Print the JSON Schema of cluster.yaml, for editors that check YAML while you write."""
    from kubexm.apis.v1alpha1 import json_schema

    show_data(json_schema(), Shown(output.value))


@app.command()
def upload(ctx: typer.Context, file: File = None) -> None:
    """Register the cluster of the file with the server that --server names, or update it there. Secrets and keys the
    file takes from this machine go along, sealed. No host is touched."""
    from kubexm.cli.options import cluster_file
    from kubexm.cli.remote.service import RemoteService
    from kubexm.cli.running import carry_out, service_of
    from kubexm.errors import UsageError

    service = service_of(ctx)
    if not isinstance(service, RemoteService):
        raise UsageError("there is no server to upload to", hint="name it: --server URL, or KUBEXM_SERVER")
    done = carry_out(service.upload(cluster_file(file)))
    typer.echo(f"{done.name}: {done.change} at {service.address.url}, version {done.version}")


def _load(file: str) -> Loaded:
    from kubexm.apis.v1alpha1.rules.support import supported_on
    from kubexm.config import load, loads

    more = [supported_on(today())]
    if file != "-":
        return load(file, more=more)
    return loads(sys.stdin.buffer.read().decode("utf-8-sig", errors="replace"), name="<stdin>", more=more)


def today() -> date:
    """The day on which a file is checked."""
    return datetime.now(UTC).date()


def _summary(loaded: Loaded) -> str:
    cluster = loaded.cluster
    roles = ", ".join(
        f"{len(cluster.role(role))} {label}"
        for role, label in (("etcd", "etcd"), ("controlPlane", "control plane"), ("worker", "worker"))
        if cluster.role(role)
    )
    hosts = f"{len(cluster.hosts)} {'host' if len(cluster.hosts) == 1 else 'hosts'}"
    warnings = (
        f", {len(loaded.warnings)} warnings" if len(loaded.warnings) > 1 else ", 1 warning" if loaded.warnings else ""
    )
    kubernetes = cluster.spec.kubernetes
    return f"{loaded.source.name}: OK{warnings}: {cluster.name}, Kubernetes {kubernetes.version}, {hosts} ({roles})"
