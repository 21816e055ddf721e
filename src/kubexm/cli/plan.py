"""`kubexm plan`: what would be done, shown in many ways, compared, and saved for review."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.options import File, Fix, Only, Skip, cluster_file, several
from kubexm.cli.output import Boxes, Drawn

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph

__all__ = ["app"]

app = typer.Typer()


@app.command()
def plan(
    ctx: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="What to plan.")] = "create",
    file: File = None,
    output: Annotated[Drawn, typer.Option("--output", "-o", help="How to show it.")] = Drawn.TREE,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="PLAN", help="Also write it to a file that `kubexm apply` carries out."),
    ] = None,
    diff: Annotated[
        Path | None, typer.Option("--diff", metavar="PLAN", help="Show what differs from this saved plan.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no host: plan from the cluster file and assumed facts alone.")
    ] = False,
    changes: Annotated[
        bool | None,
        typer.Option(
            "--changes/--no-changes",
            help="Also look at every host and show what would change, as a diff of contents.  "
            "[default: in a tree of a cluster that is there]",
            show_default=False,
        ),
    ] = None,
    fix: Fix = False,
    only: Only = None,
    skip: Skip = None,
    collapse: Annotated[
        Boxes | None,
        typer.Option("--collapse", help="In pictures: one box for each of these.  [default: as fits]"),
    ] = None,
    all_edges: Annotated[
        bool, typer.Option("--all-edges", help="In pictures: also the edges that follow from others.")
    ] = False,
) -> None:
    """Show what would be done, as a graph, and change nothing. The same cluster file and the same facts always give
    the same plan."""
    from kubexm.cli.report import warn
    from kubexm.cli.running import carry_out, run_pipeline, service_of
    from kubexm.errors import UsageError

    if changes and offline:
        raise UsageError("--changes asks the hosts, and --offline must not", hint="leave one of them out")
    if fix and pipeline != "preflight":
        raise UsageError(f"--fix is for preflight, and this is {pipeline}")
    options = {"fix": True} if fix else {}
    service = service_of(ctx)
    planned = carry_out(
        service.plan(
            cluster_file(file),
            pipeline,
            offline=offline,
            only=several(only, "--only"),
            skip=several(skip, "--skip"),
            **options,
        )
    )
    for error in planned.unreached.values():
        warn(f"{error.host} could not be reached, and is within the failure budget: {error.message}", error.hint)
    _show(planned.graph, output, diff, collapse=collapse, all_edges=all_edges)
    if planned.offline:
        typer.echo("made with no host asked: facts were assumed, and the real plan may differ", err=True)
    if save is not None:
        planned.save(save)
        typer.echo(f"saved: carry it out with `kubexm apply {save}`", err=True)
    if changes if changes is not None else planned.made and output is Drawn.TREE and diff is None:
        chosen: dict[str, Any] = {"only": several(only, "--only"), "skip": several(skip, "--skip"), **options}
        run_pipeline(ctx, pipeline, cluster_file(file), dry_run=True, **chosen)


def _show(graph: ExecutionGraph, output: Drawn, diff: Path | None, *, collapse: Boxes | None, all_edges: bool) -> None:
    from kubexm.plan.render import Collapse, PlanDiff, PlanFormat, render, render_diff

    how, level = PlanFormat(output), None if collapse is None else Collapse(collapse)
    if diff is None:
        text = render(graph, how, collapse=level, every_edge=all_edges)
    else:
        from kubexm.plan import SavedPlan

        text = render_diff(PlanDiff.between(SavedPlan.load(diff).graph, graph), how, collapse=level)
    sys.stdout.write(text)
