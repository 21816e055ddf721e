"""`kubexm apply`: a saved plan, run exactly as it was reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.options import DryRun, IgnoreErrors, Parallel, Rollback
from kubexm.cli.output import Streamed
from kubexm.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kubexm.plan import GraphExecutionResult
    from kubexm.service import Watch

__all__ = ["app"]

app = typer.Typer()


@app.command()
def apply(
    ctx: typer.Context,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What `kubexm plan --save PLAN` wrote.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="The cluster file, if it is not where it was when the plan was made."
        ),
    ] = None,
    dry_run: DryRun = False,
    rollback: Rollback = False,
    ignore_errors: IgnoreErrors = False,
    parallel: Parallel = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Run a saved plan, exactly as it was reviewed. Refused, with the reason, if the cluster file, kubexm's version or
    a fact that planning read has changed since."""
    from kubexm.cli.running import run_and_show, service_of
    from kubexm.plan import RunSpec, SavedPlan

    service, saved = service_of(ctx), SavedPlan.load(plan)
    how = RunSpec(
        saved.pipeline,
        dry_run=dry_run,
        rollback=rollback,
        ignore_errors=ignore_errors,
        parallel=parallel,
        accept_new_host_keys=ctx.ensure_object(Settings).accept_new_host_keys,
    )

    def start(watch: Watch) -> Awaitable[GraphExecutionResult]:
        return service.apply(plan, how, watch, file=file)

    run_and_show(ctx, service, start, output=output, file=file or Path(saved.file))
