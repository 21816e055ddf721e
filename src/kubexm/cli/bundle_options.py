"""What several `kubexm bundle` commands take: registries, passwords by reference, versions as people write them."""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kubexm.errors import UsageError
from kubexm.redact import Secret

if TYPE_CHECKING:
    from kubexm.assets.registry import Credentials

__all__ = [
    "AuthFile",
    "BundlePath",
    "CaFile",
    "Password",
    "User",
    "credentials_for",
    "kubernetes_versions",
    "machine_arch",
    "pairs",
    "run",
    "secret",
]

_T = TypeVar("_T")

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle: a directory or a .tar.zst.")]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", help="Trust this CA as well, for servers of your own.")
]
User = Annotated[str, typer.Option("--user", metavar="NAME", help="User at the registry.")]
Password = Annotated[
    str, typer.Option("--password", metavar="REF", help="Its password: env:NAME, file:PATH or prompt, never itself.")
]
AuthFile = Annotated[
    Path | None,
    typer.Option("--auth-file", metavar="FILE", help="Users and passwords as `docker login` writes them."),
]


def machine_arch() -> str:
    """This machine's architecture, as Go names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def kubernetes_versions(values: Iterable[str]) -> tuple[str, ...]:
    """Full versions from what people write: 1.34.4, v1.34.4, or 1.34 for the newest patch the catalog knows."""
    from kubexm.assets import catalog

    found: list[str] = []
    for value in (part for each in values for part in each.split(",") if part):
        bare = value.removeprefix("v")
        if re.fullmatch(r"\d+\.\d+", bare):
            found.append(catalog.newest(bare))
        else:
            found.append(f"v{bare}")
    return tuple(dict.fromkeys(found))


def secret(reference: str, what: str) -> Secret:
    """The secret a reference points to. One written out on the command line is refused: every user could read it."""
    from kubexm.apis.v1alpha1 import EnvSecret, FileSecret, PromptSecret, SecretSource
    from kubexm.cli.terminal import ask_secret
    from kubexm.config.secrets import resolve

    kind, colon, rest = reference.partition(":")
    source: SecretSource
    if reference == "prompt":
        source = PromptSecret()
    elif kind == "env" and colon:
        source = EnvSecret(rest)
    elif kind == "file" and colon:
        source = FileSecret(rest)
    else:
        raise UsageError(
            f"{what} may not be written on the command line, where others can read it",
            hint="Write env:NAME, file:PATH or prompt instead.",
        )
    return resolve(source, base_dir=Path.cwd(), ask=lambda text: ask_secret(text).reveal(), what=what)


def credentials_for(
    registries: Iterable[str], user: str, password: str, auth_file: Path | None
) -> dict[str, Credentials]:
    """Who we are at which registry: from the file, and from --user and --password for these registries."""
    from kubexm.assets.registry import Credentials, credentials_from_file

    found = credentials_from_file(auth_file) if auth_file else {}
    if bool(user) != bool(password):
        raise UsageError("--user and --password go together")
    if user:
        given = Credentials(username=user, password=secret(password, "the registry's password"))
        found |= dict.fromkeys(registries, given)
    return found


def pairs(values: Iterable[str], what: str, example: str) -> list[tuple[str, str]]:
    """NAME=VALUE options, taken apart."""
    found: list[tuple[str, str]] = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise UsageError(f"{value!r} is not {what}", hint=f"Write it like {example}.")
        found.append((name, rest))
    return found


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Does the work; Ctrl-C ends it with what has arrived so far kept for the next time."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo("stopped; what has arrived is kept and used next time", err=True)
        raise typer.Exit(130) from None
