"""`kubexm create cluster`: from bare hosts to a working cluster, and again whenever the file was edited."""

from __future__ import annotations

from typing import Annotated

import typer

from kubexm.cli.options import (
    DryRun,
    File,
    IgnoreErrors,
    Only,
    Parallel,
    ProbeLevel,
    Probes,
    Rollback,
    Skip,
    cluster_file,
    several,
)
from kubexm.cli.output import Streamed

__all__ = ["app"]

app = typer.Typer(help="Create a cluster, or bring it to what its file says now.", no_args_is_help=True)


@app.callback()
def create() -> None:
    """Create a cluster, or bring it to what its file says now."""


@app.command()
def cluster(
    ctx: typer.Context,
    file: File = None,
    dry_run: DryRun = False,
    only: Only = None,
    skip: Skip = None,
    rollback: Rollback = False,
    parallel: Parallel = None,
    ignore_errors: IgnoreErrors = False,
    probes: Probes = ProbeLevel.NONE,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Create the cluster of the file, prove that it works, and leave its kubeconfig in the work directory. Run it
    again after an edit: just what differs is changed. A second run changes nothing."""
    from kubexm.cli.running import run_pipeline

    run_pipeline(
        ctx,
        "create",
        cluster_file(file),
        output=output,
        dry_run=dry_run,
        only=several(only, "--only"),
        skip=several(skip, "--skip"),
        rollback=rollback,
        parallel=parallel,
        ignore_errors=ignore_errors,
        probes=probes.value,
    )
