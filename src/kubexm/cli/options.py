"""Options that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubexm.errors import UsageError

__all__ = [
    "File",
    "Limit",
    "Roles",
    "cluster_file",
    "host_names",
    "several",
]

DEFAULT_FILE = "cluster.yaml"

File = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", metavar="FILE", envvar="KUBEXM_FILE", help="The cluster file.  [default: ./cluster.yaml]"
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", "-l", metavar="HOST", help="Only these hosts: names, w[1:3], w*; repeat, or join by commas."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", "-r", metavar="ROLE", help="Only hosts of these roles; repeat, or join by commas."),
]


def several(values: list[str] | None, option: str) -> tuple[str, ...]:
    """What was given once, several times, or joined by commas (ranges such as `w[1:3]` hold none).

    An empty value is refused: an unset variable in a script must not select everything.
    """
    found: list[str] = []
    for value in values or ():
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if not parts:
            raise UsageError(
                f"{option} is empty",
                hint="to select everything leave the option out; a variable in its value may not be set",
            )
        found += parts
    return tuple(found)


def host_names(values: list[str] | None, option: str = "--limit") -> tuple[str, ...]:
    """Names and patterns of hosts, with ranges such as `w[01:20]` written out: what tables show can be pasted here."""
    import re

    found: list[str] = []
    for text in several(values, option):
        if re.search(r"\[[0-9]+:[0-9]+\]", text) is None:
            found.append(text)
            continue
        from kubexm.apis.v1alpha1.ranges import expand

        try:
            found += expand(text)
        except ValueError as error:
            raise UsageError(str(error)) from None
    return tuple(found)


def cluster_file(given: Path | None) -> Path:
    """The file that was given, or the usual one if it is there."""
    if given is not None:
        return given
    usual = Path(DEFAULT_FILE)
    if not usual.exists():
        raise UsageError(
            "no cluster file was given, and there is no ./cluster.yaml",
            hint="give one with -f FILE; `kubexm config init >cluster.yaml` writes one to start from",
        )
    return usual
