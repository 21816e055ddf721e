"""Everything that commands which run something share: service, display, signals, summary, exit code."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from kubexm.cli.exits import ExitCode
from kubexm.cli.interrupts import Interrupts
from kubexm.cli.output import Streamed
from kubexm.cli.settings import Settings
from kubexm.cli.style import paint

if TYPE_CHECKING:
    from kubexm.events import Event
    from kubexm.plan import GraphExecutionResult, RunSpec
    from kubexm.service import Service, ServiceOptions, Watch

__all__ = ["carry_out", "options_of", "run_and_show", "run_spec", "service_of"]

T = TypeVar("T")
_PATIENCE = 1.5
_Start = Callable[["Watch"], Awaitable["GraphExecutionResult"]]


def service_of(ctx: typer.Context) -> Service:
    """The one way to run anything, set up as the command line says: here, or on the server it names."""
    from kubexm.service import ClusterService

    options = options_of(ctx)
    settings = ctx.ensure_object(Settings)
    if not settings.server:
        return ClusterService(options)
    from kubexm.cli.remote.address import address_of
    from kubexm.cli.remote.service import RemoteService

    if settings.token:
        from kubexm.cli.report import warn

        warn("everybody on this machine can see a token on the command line", "use --token-file or KUBEXM_TOKEN")
    return RemoteService(address_of(settings), options)


def options_of(ctx: typer.Context, *, parallel: int | None = None) -> ServiceOptions:
    """What the command line says about everything that is done for it."""
    from kubexm.cli.terminal import ask_secret
    from kubexm.service import ServiceOptions

    settings = ctx.ensure_object(Settings)
    settings.apply()
    return ServiceOptions(
        accept_new_host_keys=settings.accept_new_host_keys,
        ask=lambda what: ask_secret(what).reveal(),
        logger=logging.getLogger("kubexm"),
        parallel=parallel,
        work_dir=None if settings.work_dir is None else str(settings.work_dir.absolute()),
    )


def carry_out(work: Coroutine[Any, Any, T]) -> T:
    """Runs something short to its end; Ctrl-C ends it with the code for that."""
    try:
        return asyncio.run(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(ExitCode.CANCELLED) from None


def run_spec(
    ctx: typer.Context, spec: RunSpec, file: Path, *, output: Streamed = Streamed.TEXT, measures: bool = False
) -> NoReturn:
    """Plans and runs what a spec asks for, shows it, and exits with the code for how it ended.

    `measures`: what it measures is shown while it runs.
    """
    from kubexm.cli.display.measured import MeasuredTable

    service = service_of(ctx)
    table = MeasuredTable() if measures and output is Streamed.TEXT and not service.is_remote else None

    def start(watch: Watch) -> Awaitable[GraphExecutionResult]:
        return service.run(file, spec, watch if table is None else replace(watch, on_cost=table.show))

    try:
        run_and_show(ctx, service, start, output=output, file=file, quiet=table is not None and table.drawn)
    finally:
        if table is not None:
            table.close()


def run_and_show(
    ctx: typer.Context,
    service: Service,
    start: _Start,
    *,
    output: Streamed = Streamed.TEXT,
    file: Path | None = None,
    quiet: bool = False,
) -> NoReturn:
    """Runs what `start` starts, shows it while it runs and when it is over, and exits with the code for its end.

    `quiet`: somebody else shows it while it runs.
    """
    settings = ctx.ensure_object(Settings)
    display = _Display(_Nobody(), lambda: None, as_json=False) if quiet else _display(output, settings.verbose)
    try:
        result = asyncio.run(_watched(start, display))
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("cancelled", err=True)
        raise typer.Exit(ExitCode.CANCELLED) from None
    finally:
        display.close()
    code = ExitCode.of_result(result)
    run = service.find(result.run, file)
    resume = shlex.join(run.resume_words())
    display.show_result(result, run.logs, code=code, resume=resume, verbose=settings.verbose, cost=run.cost())
    raise typer.Exit(code)


async def _watched(start: _Start, display: _Display) -> GraphExecutionResult:
    from kubexm.engine import Cancellation
    from kubexm.service import Watch

    cancellation = Cancellation()
    interrupts = Interrupts(cancellation, _say)
    waiting = asyncio.get_running_loop().call_later(_PATIENCE, _tell_of_waiting, interrupts)
    try:
        with interrupts.caught():
            return await start(Watch(observers=(display.observer, interrupts), cancellation=cancellation))
    finally:
        waiting.cancel()


def _tell_of_waiting(interrupts: Interrupts) -> None:
    """Connecting can take long when hosts do not answer; silence would look like a hang."""
    if not interrupts.begun and sys.stderr.isatty():
        typer.echo(paint("connecting to the hosts and gathering facts …", "dim", stream=sys.stderr), err=True)


def _say(message: str) -> None:
    typer.echo(f"\n{paint(message, 'yellow', 'bold', stream=sys.stderr)}", err=True)


@dataclass(frozen=True, slots=True)
class _Display:
    """An observer, and what to do when the run is over."""

    observer: Any
    close: Callable[[], None]
    as_json: bool

    def show_result(
        self,
        result: GraphExecutionResult,
        logs: Path | None,
        *,
        code: int,
        resume: str,
        verbose: int,
        cost: Mapping[str, Any] | None = None,
    ) -> None:
        from kubexm.cli.display.summary import result_data, summary_lines

        if self.as_json:
            import json

            told = {**result_data(result, exit_code=code, resume=resume), **({"cost": cost} if cost else {})}
            data = {"kind": "result", "data": told}
            typer.echo(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
            return
        lines = summary_lines(result, logs=logs, resume=resume, verbose=verbose)
        if cost:
            from kubexm.cli.display.cost import cost_lines

            lines += cost_lines(cost)
        typer.echo("\n".join(lines))


class _Nobody:
    """An observer that shows nothing."""

    def on_event(self, event: Event) -> None:
        """Nothing."""


def _display(output: Streamed, verbose: int) -> _Display:
    from kubexm.cli.display.writer import LineWriter
    from kubexm.cli.terminal import live_console

    if output is Streamed.JSON:
        from kubexm.cli.display.events import EventLines

        writer = LineWriter()
        return _Display(EventLines(writer, with_output=verbose > 0), writer.close, as_json=True)
    console = live_console()
    if console is not None:
        from kubexm.cli.display.live import LiveDisplay

        live = LiveDisplay(console, verbose=verbose)
        return _Display(live, live.close, as_json=False)
    from kubexm.cli.display.plain import PlainLines

    writer = LineWriter()
    return _Display(PlainLines(writer, verbose=verbose), writer.close, as_json=False)
