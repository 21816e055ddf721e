"""`kubexm runs`: what ran, how it ended, what it printed; and going on with it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.output import Boxes, Drawn, Shown, Streamed, Times, show_data, show_table
from kubexm.cli.style import paint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubexm.plan import ExecutionGraph, NodeResult
    from kubexm.service import RunInfo, RunView
    from kubexm.store import StepLog

__all__ = ["app"]

app = typer.Typer(help="List, show, draw, resume and cancel runs.", no_args_is_help=True)


def _complete_run(incomplete: str) -> list[str]:
    """The ids of runs that can be seen from here, without loading anything."""
    base = Path(os.environ.get("KUBEXM_WORK_DIR") or ".kubexm")
    found = sorted((path.name for path in base.glob("*/runs/*") if path.is_dir()), reverse=True)
    return [name for name in ("last", *found) if name.startswith(incomplete)]


Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, the start of one, or `last`.", autocompletion=_complete_run),
]
Output = Annotated[Shown, typer.Option("--output", "-o", help="How to show it.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", envvar="KUBEXM_FILE", help="Only runs of this file's cluster."),
]

_COLOURS = {"succeeded": "green", "partial": "yellow", "cancelled": "yellow", "running": "cyan"}


@app.command("list")
def list_(
    ctx: typer.Context,
    file: File = None,
    most: Annotated[int, typer.Option("--most", "-n", min=1, help="Show only so many, the latest.")] = 20,
    output: Output = Shown.TABLE,
) -> None:
    """List runs, the latest first."""
    from kubexm.cli.running import service_of

    found = service_of(ctx).latest(file, most)
    if output is not Shown.TABLE:
        show_data([_data(run) for run in found], output)
    elif found:
        show_table(("run", "cluster", "pipeline", "status", "started", "took", "units"), [_row(run) for run in found])
    else:
        typer.echo("There are no runs.", err=True)


@app.command()
def show(ctx: typer.Context, run: Run, file: File = None, output: Output = Shown.TABLE) -> None:
    """Show one run: how it ended, what it changed, what went wrong."""
    found = _find(ctx, run, file)
    info, logs = found.info(), found.step_logs()
    if output is not Shown.TABLE:
        measured = {"cost": cost} if (cost := found.cost()) else {}
        show_data({**_data(info), **measured, "steps": [_log_data(log) for log in logs]}, output)
        return
    from kubexm.cli.display.words import moment

    rows = [
        ("run", info.id + (" (dry run)" if info.dry_run else "")),
        ("cluster", info.cluster),
        ("pipeline", info.pipeline),
        ("status", paint(info.status, _COLOURS.get(info.status, "red"))),
        ("started", moment(info.started)),
        ("ended", moment(info.ended)),
        ("units", _units(info)),
        ("kept in", found.place),
    ]
    for name, value in rows:
        typer.echo(f"{name:<9} {value}")
    _show_steps(logs)
    if cost := found.cost():
        from kubexm.cli.display.cost import cost_lines

        typer.echo("\n".join(cost_lines(cost)))
    if info.status not in ("succeeded", "running") and not info.dry_run:
        typer.echo(f"\nTo go on where it stopped: kubexm runs resume {info.id}")


@app.command()
def graph(
    ctx: typer.Context,
    run: Run,
    file: File = None,
    output: Annotated[Drawn, typer.Option("--output", "-o", help="How to show it.")] = Drawn.SVG,
    collapse: Annotated[
        Boxes | None, typer.Option("--collapse", help="One box for each of these.  [default: as fits]")
    ] = None,
) -> None:
    """Draw a run: how each step ended, and how long it took. Also while it runs."""
    from kubexm.plan.render import Collapse, PlanFormat, render

    found = _find(ctx, run, file)
    info, plan = found.info(), found.graph()
    results = _results(plan, found.step_logs())
    level = None if collapse is None else Collapse(collapse)
    sys.stdout.write(render(plan, PlanFormat(output), collapse=level, results=results, outcome=_outcome(info)))


@app.command()
def timeline(
    ctx: typer.Context,
    run: Run,
    file: File = None,
    output: Annotated[
        Times, typer.Option("--output", "-o", help="The critical path as text, a page, or a trace for trace viewers.")
    ] = Times.TEXT,
) -> None:
    """Show where the time of a run went, and which steps decided how long it took. Also while it runs."""
    import json

    from kubexm.plan.render import timeline_to_html, timeline_to_text, timeline_to_trace

    view = _find(ctx, run, file)
    found = view.timeline()
    match output:
        case Times.TEXT:
            typer.echo(timeline_to_text(found))
        case Times.HTML:
            typer.echo(timeline_to_html(found, title=f"{found.name}, run {view.id}"), nl=False)
        case Times.TRACE:
            typer.echo(json.dumps(timeline_to_trace(found)))


@app.command()
def logs(
    ctx: typer.Context,
    run: Run,
    node: Annotated[str, typer.Argument(metavar="[NODE]", help="A node, task or module.")] = "",
    host: Annotated[str, typer.Argument(metavar="[HOST]", help="A host.")] = "",
    file: File = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what failed or was stopped.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
    output: Annotated[Streamed, typer.Option("--output", "-o", help="text, or json: one step a line.")] = Streamed.TEXT,
) -> None:
    """Show what steps printed. Of all of them, or of one node, task, module or host; whole."""
    found = _find(ctx, run, file)
    if node or host:
        _refuse_unknown(found.graph(), node, host)
    shown = False
    for log in found.ended(follow=follow):
        if _wanted(log, node, host, failed=failed):
            shown |= _show_log(found, log, output)
    if not shown and output is Streamed.TEXT:
        typer.echo("There is no output.", err=True)


@app.command()
def resume(
    ctx: typer.Context,
    run: Run,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", envvar="KUBEXM_FILE", help="The cluster file, if it moved."),
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="After a failure, undo what this run changed.")] = False,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Go on with a run that failed, was stopped or was killed. Nothing that is done is done again."""
    from kubexm.cli.running import run_and_show, service_of

    found = _find(ctx, run, file)
    run_and_show(ctx, service_of(ctx), lambda watch: found.resume(watch, rollback=rollback), output=output, file=file)


@app.command()
def cancel(ctx: typer.Context, run: Run, file: File = None) -> None:
    """Ask a run to stop. Once: it finishes what runs and starts nothing; again: it stops now."""
    found = _find(ctx, run, file)
    found.cancel()
    typer.echo(f"{found.id} was asked to stop.")


def _find(ctx: typer.Context, run: str, file: Path | None) -> RunView:
    from kubexm.cli.running import service_of

    return service_of(ctx).find(run, file)


def _row(run: RunInfo) -> list[str]:
    from kubexm.cli.display.words import duration, moment

    name = run.pipeline + (" (dry run)" if run.dry_run else "")
    end = run.ended if run.ended is not None else time.time() if run.status == "running" else None
    took = duration(end - run.started) if end is not None else "-"
    return [run.id, run.cluster, name, run.status, moment(run.started), took, _units(run)]


def _outcome(run: RunInfo) -> str:
    from kubexm.cli.display.words import duration

    return run.status if run.ended is None else f"{run.status} after {duration(run.ended - run.started)}"


def _results(plan: ExecutionGraph, logs: Iterable[StepLog]) -> dict[str, NodeResult]:
    """What is known of each node so far."""
    from kubexm.plan import HostResult, NodeResult, State

    hosts: dict[str, dict[str, HostResult]] = {}
    for log in logs:
        ended = HostResult(host=log.host, state=State(log.state), started=log.started, ended=log.ended)
        hosts.setdefault(log.node, {})[log.host] = ended
    steps = {name: node.step.describe() for name, node in plan.nodes.items()}
    return {name: NodeResult(name, steps[name], each) for name, each in hosts.items() if name in steps}


def _units(run: RunInfo) -> str:
    ended = ", ".join(f"{number:,} {state}" for state, number in run.states.items() if number) or "none ended"
    return f"{run.units:,}: {ended}"


def _data(run: RunInfo) -> dict[str, Any]:
    return {
        "id": run.id,
        "cluster": run.cluster,
        "pipeline": run.pipeline,
        "status": run.status,
        "dry_run": run.dry_run,
        "started": run.started,
        "ended": run.ended,
        "units": run.units,
        "states": dict(run.states),
        **({"path": str(run.path)} if run.path is not None else {}),
    }


def _show_steps(logs: Iterable[StepLog]) -> None:
    from kubexm.plan.render import short_hosts

    changed: dict[str, list[str]] = {}
    failed: dict[tuple[str, str, str], list[str]] = {}
    for log in logs:
        if log.state == "succeeded":
            changed.setdefault(log.node, []).append(log.host)
        elif log.state in ("failed", "interrupted"):
            failed.setdefault((log.node, log.error or "stopped midway", log.hint), []).append(log.host)
    if changed:
        typer.echo("\nChanged:")
        for node, hosts in changed.items():
            typer.echo(f"  {paint('+', 'green')} {node} on {short_hosts(hosts)}")
    for (node, error, hint), hosts in failed.items():
        typer.echo(f"\n{paint('✗', 'red', 'bold')} {paint(node, 'bold')} on {short_hosts(hosts)}")
        typer.echo("\n".join(f"    {line}" for line in error.splitlines()))
        if hint:
            typer.echo(f"    {paint('→', 'cyan')} {hint}")


def _wanted(log: StepLog, node: str, host: str, *, failed: bool) -> bool:
    if failed and log.state not in ("failed", "interrupted"):
        return False
    return (not host or log.host == host) and (not node or _names(node, log.node))


def _names(node: str, id_: str) -> bool:
    """Whether it is the id, with or without the host that a copy of a node is for, or the start of it."""
    return node in (id_, id_.partition("@")[0]) or id_.startswith(f"{node}.")


def _refuse_unknown(plan: ExecutionGraph, node: str, host: str) -> None:
    """Raises for a node or a host that the run does not have: no output would look like nothing was printed."""
    from difflib import get_close_matches

    from kubexm.errors import UsageError

    if node and not any(_names(node, id_) for id_ in plan.nodes):
        names = {name for each in plan.nodes.values() for name in (each.id, each.task, each.module)}
        close = get_close_matches(node, sorted(names), n=1)
        raise UsageError(
            f"no step of this run is called {node!r}",
            hint=f"did you mean `{close[0]}`?" if close else "`kubexm runs graph RUN -o tree` shows its steps",
        )
    hosts = dict.fromkeys(name for each in plan.nodes.values() for name in each.hosts)
    if host and host not in hosts:
        close = get_close_matches(host, hosts, n=1)
        raise UsageError(
            f"this run has no host {host!r}",
            hint=f"did you mean `{close[0]}`?" if close else "its hosts: " + ", ".join(list(hosts)[:20]),
        )


def _show_log(run: RunView, log: StepLog, output: Streamed) -> bool:
    """Shows what a step printed; False if that is nothing."""
    import json

    text = run.log_text(log.node, log.host)
    if output is Streamed.JSON:
        typer.echo(json.dumps({**_log_data(log), "log": text}, ensure_ascii=False))
        return True
    if not text and not log.error:
        return False
    colour = "red" if log.state in ("failed", "interrupted") else "bold"
    typer.echo(paint(f"── {log.node} on {log.host}: {log.state}", colour))
    if text:
        typer.echo(text.removesuffix("\n"))
    if log.error:
        typer.echo(f"{paint('error:', 'red')} {log.error}")
        if log.hint:
            typer.echo(f"  {paint('→', 'cyan')} {log.hint}")
    return True


def _log_data(log: StepLog) -> dict[str, Any]:
    return {name: getattr(log, name) for name in log.__slots__}
