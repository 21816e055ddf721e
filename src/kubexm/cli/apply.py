"""`kubexm apply`: a saved plan, run exactly as it was reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.output import Streamed
from kubexm.cli.pipelines import extended, given, parameter
from kubexm.cli.settings import Settings
from kubexm.pipeline import SHARED

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kubexm.plan import GraphExecutionResult
    from kubexm.service import Watch

__all__ = ["app"]

app = typer.Typer()


_HOW = ("dry_run", "rollback", "ignore_errors", "parallel")
"""Settings of a run that say how a plan is run, not what is run."""


def _apply(
    ctx: typer.Context,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What `kubexm plan --save PLAN` wrote.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="The cluster file, if it is not where it was when the plan was made."
        ),
    ] = None,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
    **values: Any,
) -> None:
    """Run a saved plan, exactly as it was reviewed. Refused, with the reason, if the cluster file, kubexm's version or
    a fact that planning read has changed since."""
    from kubexm.cli.running import run_and_show, service_of
    from kubexm.plan import RunSpec, SavedPlan

    service, saved = service_of(ctx), SavedPlan.load(plan)
    asked = given({name: SHARED[name] for name in _HOW}, values)
    keys = ctx.ensure_object(Settings).accept_new_host_keys
    how = RunSpec.of(saved.pipeline, **asked, accept_new_host_keys=keys)

    def start(watch: Watch) -> Awaitable[GraphExecutionResult]:
        return service.apply(plan, how, watch, file=file)

    run_and_show(ctx, service, start, output=output, file=file or Path(saved.file))


app.command("apply")(extended(_apply, [parameter(SHARED[name]) for name in _HOW]))
