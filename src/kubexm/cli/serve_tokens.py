"""`kubexm serve token`: who may use a server. Works beside a server that runs."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.output import Shown, show_data, show_table
from kubexm.cli.server_options import Database, DataDir, local_actor, opened, places_of, require_server_packages
from kubexm.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kubexm.store.store import Store
    from kubexm.store.tokens import Token

__all__ = ["app"]

app = typer.Typer(help="Make, list and revoke the tokens of a server.", no_args_is_help=True)


class RoleName(StrEnum):
    """What a token may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.command("create")
def create(
    role: Annotated[RoleName, typer.Option("--role", help="What it may do; each includes the ones before.")],
    name: Annotated[str, typer.Option("--name", help="Whose it is; tasks and the audit say so.")] = "",
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="NAME", help="Only for this cluster; repeatable.  [default: all]"),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="DURATION", help="How long it is valid, like 30d.  [default: for ever]")
    ] = "",
    database: Database = "",
    data_dir: DataDir = None,
) -> None:
    """Make a token. It is printed once, and only its hash is kept."""
    ends = None if not expires else time.time() + _seconds(expires)
    clusters = cluster or ["*"]
    if role is RoleName.ADMIN and cluster:
        raise UsageError("an administrator is one of the whole server", hint="leave --cluster out, or use operator")

    async def make(store: Store) -> tuple[Token, str]:
        grants = dict.fromkeys(clusters, role.value)
        made, secret = await store.tokens.create(name or local_actor(), grants, by=local_actor(), expires=ends)
        await store.audit.add(
            actor=local_actor(), action="make token", target=made.id, outcome="201", detail={"grants": grants}
        )
        return made, secret.reveal()

    made, shown = _with_store(data_dir, database, make)
    typer.echo(shown)
    typer.echo(f"token {made.id} for {made.name}: {role} on {', '.join(clusters)}; shown this once", err=True)


@app.command("list")
def list_(
    output: Annotated[Shown, typer.Option("--output", "-o", help="How to show it.")] = Shown.TABLE,
    database: Database = "",
    data_dir: DataDir = None,
) -> None:
    """List tokens: whose, for what, and when they were last used."""
    from kubexm.cli.display.words import moment

    found = _with_store(data_dir, database, lambda store: store.tokens.all())
    if output is not Shown.TABLE:
        show_data([_data(token) for token in found], output)
        return
    rows = []
    for token in found:
        grants = ", ".join(f"{role} on {name}" for name, role in sorted(token.grants.items()))
        valid = "revoked" if token.revoked else "expired" if not token.valid(time.time()) else "valid"
        rows.append([token.id, token.name, grants, valid, moment(token.expires) or "-", moment(token.used) or "-"])
    show_table(("token", "name", "may", "state", "expires", "last used"), rows)


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The id of a token, as the list shows it.")],
    force: Annotated[bool, typer.Option("--force", help="Also revoke the last valid administrator token.")] = False,
    database: Database = "",
    data_dir: DataDir = None,
) -> None:
    """Revoke a token. Its sessions and open streams end within seconds."""
    number = token.split("_")[1] if token.startswith("kx_") and token.count("_") >= 2 else token

    async def end(store: Store) -> Token:
        gone = await store.tokens.revoke(number, force=force)
        await store.audit.add(actor=local_actor(), action="revoke token", target=number, outcome="200")
        return gone

    gone = _with_store(data_dir, database, end)
    typer.echo(f"token {gone.id} of {gone.name} is revoked")


def _with_store(data_dir: Any, database: str, work: Callable[[Store], Awaitable[Any]]) -> Any:
    require_server_packages("serve token")
    import asyncio

    async def do() -> Any:
        store = await opened(places_of(data_dir), database)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(do())


def _seconds(text: str) -> float:
    from kubexm.apis.v1alpha1.scalars import parse_duration

    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise UsageError(f"--expires: {error}", hint="write it like 12h or 30d") from None


def _data(token: Token) -> dict[str, Any]:
    names = ("id", "name", "grants", "created", "created_by", "expires", "revoked", "used")
    return {name: getattr(token, name) for name in names}
