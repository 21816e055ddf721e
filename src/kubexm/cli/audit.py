"""`kubexm audit`: what was written down of who did what on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.exits import ExitCode
from kubexm.cli.server_options import Database, DataDir, opened, places_of, require_server_packages

if TYPE_CHECKING:
    from kubexm.store.audit import AuditReport

__all__ = ["app"]

app = typer.Typer(help="Check what was written down of who did what.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Check what was written down of who did what."""


@app.command()
def verify(
    expect: Annotated[
        str, typer.Option("--expect", metavar="HASH", help="A head noted earlier: an entry of that hash must be there.")
    ] = "",
    database: Database = "",
    data_dir: DataDir = None,
) -> None:
    """Check the chain of the audit: every entry is what was written, and none is missing.

    Note the head somewhere else: with --expect a later check proves that nothing up to it was changed since."""
    require_server_packages("audit verify")
    import asyncio

    async def check() -> AuditReport:
        store = await opened(places_of(data_dir), database)
        try:
            return await store.audit.verify(expect)
        finally:
            await store.close()

    report = asyncio.run(check())
    if not report.ok:
        typer.echo(f"the audit was tampered with: {report.problem}", err=True)
        typer.echo(f"  the {report.entries} entries before it are whole, head {report.head}", err=True)
        raise typer.Exit(ExitCode.FAILED)
    typer.echo(f"{report.entries} entries, all as they were written")
    typer.echo(f"head {report.head}")
