"""`kubexm preflight`."""

from __future__ import annotations

from typing import Annotated

import typer

from kubexm.cli.options import DryRun, File, Fix, Only, Skip, cluster_file, several
from kubexm.cli.output import Streamed

__all__ = ["app"]

app = typer.Typer()


@app.command()
def preflight(
    ctx: typer.Context,
    file: File = None,
    fix: Fix = False,
    dry_run: DryRun = False,
    only: Only = None,
    skip: Skip = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Check that the hosts can carry the cluster: all findings at once, each with its remedy. Changes nothing
    unless --fix is given."""
    from kubexm.cli.running import run_pipeline

    run_pipeline(
        ctx,
        "preflight",
        cluster_file(file),
        output=output,
        fix=fix,
        dry_run=dry_run,
        only=several(only, "--only"),
        skip=several(skip, "--skip"),
    )
