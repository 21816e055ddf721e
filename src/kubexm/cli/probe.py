"""`kubexm probe`: what users of a cluster experience, measured for a while."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.options import File, ProbeLevel, cluster_file
from kubexm.cli.output import Streamed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rich.live import Live

    from kubexm.cli.running import Watch
    from kubexm.components.probes.records import Cost
    from kubexm.plan import GraphExecutionResult

__all__ = ["app"]

app = typer.Typer()
_QUIET = 10.0
"""Seconds between lines where there is no terminal."""


@app.command()
def probe(
    ctx: typer.Context,
    file: File = None,
    duration: Annotated[
        float, typer.Option("--duration", "-d", metavar="SECONDS", min=1.0, help="How long to measure.")
    ] = 60.0,
    baseline: Annotated[
        float,
        typer.Option(
            "--baseline",
            metavar="SECONDS",
            min=0.0,
            help="First measure for this long idle, and again with every core busy.",
        ),
    ] = 0.0,
    probes: Annotated[
        ProbeLevel, typer.Option("--probes", help="What to measure: the API only, or everything.")
    ] = ProbeLevel.FULL,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Measure what users of a running cluster experience: API requests on new and kept connections, writes, a watch,
    pods, a service, DNS. Every miss is counted by cause. Changes nothing that stays; may run beside other commands."""
    from kubexm.cli.running import run_and_show, service_of
    from kubexm.errors import UsageError
    from kubexm.service import ClusterService

    if probes is ProbeLevel.NONE:
        raise UsageError("there is nothing to measure with --probes none", hint="use api or full")
    service, path = service_of(ctx), cluster_file(file)
    table = _Table() if output is Streamed.TEXT and isinstance(service, ClusterService) else None

    def start(watch: Watch) -> Awaitable[GraphExecutionResult]:
        asked: dict[str, Any] = {"duration": duration, "baseline": baseline, "probes": probes.value}
        if table is not None:
            asked["on_cost"] = table.show
        return service.run(path, "probe", observers=watch.observers, cancellation=watch.cancellation, **asked)

    try:
        run_and_show(ctx, service, start, output=output, file=path, quiet=table is not None and table.drawn)
    finally:
        if table is not None:
            table.close()


class _Table:
    """What was measured so far: a table that is drawn again, or a line now and then where there is no terminal."""

    def __init__(self) -> None:
        from kubexm.cli.terminal import live_console

        self._console = live_console()
        self._live: Live | None = None
        self._last = 0.0

    @property
    def drawn(self) -> bool:
        """True if it has a terminal to itself."""
        return self._console is not None

    def show(self, cost: Cost) -> None:
        """Shows it."""
        from kubexm.cli.display.cost import HEAD, cost_rows

        if self._console is None:
            if time.monotonic() - self._last > _QUIET and cost.measured:
                self._last = time.monotonic()
                sent = sum(each.sent for each in cost.measured)
                typer.echo(f"{sent:,} requests, {cost.missed:,} missed", err=True)
            return
        from rich.live import Live
        from rich.table import Table

        table = Table(*HEAD, box=None, header_style="bold")
        for row in cost_rows(cost):
            table.add_row(*row, style="red" if row[3] != "0" else "")
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(table, refresh=True)

    def close(self) -> None:
        """Leaves the terminal to what follows."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        sys.stdout.flush()
