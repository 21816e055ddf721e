"""`kubexm plan`: what would be done, shown in many ways, compared, and saved for review."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.options import File, cluster_file
from kubexm.cli.output import Boxes, Drawn
from kubexm.cli.pipelines import extended, given, parameter
from kubexm.pipeline import SHARED, Option, declared, every_pipeline

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph, RunSpec

__all__ = ["app"]

app = typer.Typer()
_CHOOSING = ("only", "skip")


def _options() -> dict[str, Option]:
    """The options of all pipelines. Those of one name are of one kind; choices are those of any."""
    found: dict[str, Option] = {}
    for option in (each for pipeline in every_pipeline() for each in pipeline.all_options()):
        known = found.get(option.name, option)
        found[option.name] = replace(known, choices=tuple(dict.fromkeys((*known.choices, *option.choices))))
    return found


def _plan(
    ctx: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="What to plan.")] = "create",
    file: File = None,
    output: Annotated[Drawn, typer.Option("--output", "-o", help="How to show it.")] = Drawn.TREE,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="PLAN", help="Also write it to a file that `kubexm apply` runs."),
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
    collapse: Annotated[
        Boxes | None,
        typer.Option("--collapse", help="In pictures: one box for each of these.  [default: as fits]"),
    ] = None,
    all_edges: Annotated[
        bool, typer.Option("--all-edges", help="In pictures: also the edges that follow from others.")
    ] = False,
    **own: Any,
) -> None:
    """Show what would be done, as a graph, and change nothing. The same cluster file and the same facts always give
    the same plan."""
    from kubexm.cli.report import warn
    from kubexm.cli.running import carry_out, run_spec, service_of
    from kubexm.errors import UsageError

    if changes and offline:
        raise UsageError("--changes asks the hosts, and --offline must not", hint="leave one of them out")
    spec, path = _spec(ctx, pipeline, own), cluster_file(file)
    planned = carry_out(service_of(ctx).plan(path, spec, offline=offline))
    for error in planned.unreached.values():
        warn(f"{error.host} could not be reached, and is within the failure budget: {error.message}", error.hint)
    _show(planned.graph, output, diff, collapse=collapse, all_edges=all_edges)
    if planned.offline:
        typer.echo("made with no host asked: facts were assumed, and the real plan may differ", err=True)
    if save is not None:
        planned.save(save)
        typer.echo(f"saved: run it with `kubexm apply {save}`", err=True)
    if changes is None:
        changes = planned.made and output is Drawn.TREE and diff is None and "dry_run" in declared(pipeline).takes
    if changes:
        run_spec(ctx, replace(spec, dry_run=True), path)


def _spec(ctx: typer.Context, pipeline: str, own: dict[str, Any]) -> RunSpec:
    """What is planned. UsageError for an option that is not one of the pipeline."""
    from kubexm.cli.settings import Settings
    from kubexm.errors import UsageError
    from kubexm.plan import RunSpec

    options, known = _options(), {option.name: option for option in declared(pipeline).all_options()}
    for name, value in own.items():
        if name in options and name not in known and value not in (None, []):
            users = [each.name for each in every_pipeline() if any(name == one.name for one in each.all_options())]
            raise UsageError(f"--{name.replace('_', '-')} is for {', '.join(users)}, and this is {pipeline}")
    chosen = given({**known, **{name: SHARED[name] for name in _CHOOSING}}, own)
    keys = ctx.ensure_object(Settings).accept_new_host_keys
    return RunSpec.of(pipeline, **chosen, accept_new_host_keys=keys)


def _parameters() -> list[inspect.Parameter]:
    """How to choose nodes, then the options of all pipelines."""
    others = [parameter(option, optional=True) for option in _options().values()]
    return [*(parameter(SHARED[name]) for name in _CHOOSING), *others]


app.command("plan")(extended(_plan, _parameters()))


def _show(graph: ExecutionGraph, output: Drawn, diff: Path | None, *, collapse: Boxes | None, all_edges: bool) -> None:
    from kubexm.plan.render import Collapse, PlanDiff, PlanFormat, render, render_diff

    how, level = PlanFormat(output), None if collapse is None else Collapse(collapse)
    if diff is None:
        text = render(graph, how, collapse=level, every_edge=all_edges)
    else:
        from kubexm.plan import SavedPlan

        text = render_diff(PlanDiff.between(SavedPlan.load(diff).graph, graph), how, collapse=level)
    sys.stdout.write(text)
