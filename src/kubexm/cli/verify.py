"""`kubexm verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from kubexm.cli.options import File, Only, Skip, cluster_file, several
from kubexm.cli.output import Streamed

__all__ = ["app"]

app = typer.Typer()

Probe = Annotated[
    bool,
    typer.Option("--probe/--no-probe", help="Also try it with pods that are removed afterwards, or only look."),
]


@app.command()
def verify(
    ctx: typer.Context,
    file: File = None,
    probe: Probe = True,
    only: Only = None,
    skip: Skip = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Prove that the cluster works: nodes, control plane, etcd; then pods, names, services and volumes, tried on all
    nodes in a namespace that is removed afterwards."""
    from kubexm.cli.running import run_pipeline

    run_pipeline(
        ctx,
        "verify",
        cluster_file(file),
        output=output,
        probe=probe,
        only=several(only, "--only"),
        skip=several(skip, "--skip"),
    )
