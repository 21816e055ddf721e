"""What a run measures, shown while it runs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.live import Live

    from kubexm.components.probes.records import Cost

__all__ = ["MeasuredTable"]

_QUIET = 10.0
"""Seconds between lines where there is no terminal."""


class MeasuredTable:
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
