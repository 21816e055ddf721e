"""A run on a terminal: phases, hosts, what runs where, what is left. Drawn by a thread a few times a second.

Five hosts get a line each; a thousand are summed up, and only the busiest and the broken are named.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from kubexm.cli.display.progress import Failure, HostProgress, Progress, Tally
from kubexm.cli.display.words import clock, duration
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph
from kubexm.plan.render import short_hosts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

__all__ = ["LiveDisplay"]

_PER_SECOND = 5
_BAR = 24
_SHORTEST_BAR = 6


class LiveDisplay:
    """Shows a run in place; failures stay above it as lines."""

    def __init__(self, console: Console, *, verbose: int = 0) -> None:
        self._console = console
        self._verbose = verbose
        self.progress = Progress()
        self._lock = threading.Lock()
        self._above: deque[Text] = deque()
        self._failures: list[Failure] = []
        self._live: Live | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._left: tuple[float, float | None] = (0.0, None)

    # Told by the engine: quick, never waits for the terminal

    def planned(self, graph: ExecutionGraph) -> None:
        """The plan that is about to run."""
        with self._lock:
            self.progress.planned(graph)

    def on_event(self, event: Event) -> None:
        """Counts it; whatever is drawn is drawn by the thread."""
        with self._lock:
            failure = self.progress.on_event(event)
            if failure is not None:
                self._failures.append(failure)
            self._note(event)
        if event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
            self._start()

    def _note(self, event: Event) -> None:
        from rich.text import Text

        if event.kind is EventKind.UNIT_RETRY:
            words = f"{event.data['error']}; again in {duration(event.data.get('delay', 0.0))}"
            self._above.append(Text.assemble(("↻ ", "yellow"), f"{event.host} {event.node}: {words}"))
        elif event.kind is EventKind.UNIT_DONE and self._verbose:
            state = str(event.data.get("state", ""))
            style = {"succeeded": "green", "failed": "red", "interrupted": "red", "blocked": "yellow"}.get(state, "dim")
            if state not in ("failed", "interrupted"):
                self._above.append(Text.assemble((f"{state:<9} ", style), f"{event.host} {event.node}"))
        elif event.kind is EventKind.UNIT_OUTPUT and self._verbose > 1:
            lines = str(event.data["text"]).splitlines()
            self._above.append(Text("\n".join(f"  {event.host} | {line}" for line in lines), style="dim"))
        elif event.kind is EventKind.HOST_LOST:
            reason = str(event.data.get("reason", ""))
            self._above.append(Text.assemble(("✗ lost ", "bold red"), f"{event.host}: {reason}"))

    # The thread that draws

    def _start(self) -> None:
        if self._thread is not None:
            return
        from rich.live import Live

        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._live.start()
        self._thread = threading.Thread(target=self._draw_until_over, name="display", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes the display away; the terminal is as it was, with the failures left above."""
        if self._thread is None or self._live is None:
            return
        self._over.set()
        self._thread.join()
        self._live.stop()

    def _draw_until_over(self) -> None:
        while True:
            over = self._over.wait(1 / _PER_SECOND)
            self._draw()
            if over:
                return

    def _draw(self) -> None:
        assert self._live is not None
        with self._lock:
            above, failures = list(self._above), list(self._failures)
            self._above.clear()
            self._failures.clear()
            picture = self._picture()
        for text in (*above, *_told(failures)):
            self._console.print(text, soft_wrap=True)
        self._live.update(picture, refresh=True)

    # What is drawn

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        progress, now = self.progress, time.time()
        room = max(self._console.size.height - 4, 8)
        phases = self._phases(limit=max(room // 2, 4))
        hosts = self._hosts(now, limit=max(room - phases.row_count - 1, 3))
        return Group(self._head(now), phases, Text(""), hosts) if progress.hosts else Group(self._head(now), phases)

    def _head(self, now: float) -> Text:
        from rich.text import Text

        progress = self.progress
        elapsed = now - progress.started if progress.started is not None else 0.0
        head = Text.assemble((progress.name, "bold"), " ", no_wrap=True, overflow="ellipsis")
        if progress.dry_run:
            head.append("(dry run) ", "yellow")
        head.append_text(_bar(progress.total, max(_SHORTEST_BAR, min(_BAR * 2, self._console.width - 52))))
        head.append(f" {int(progress.total.share * 100):3} %  {clock(elapsed)}")
        if (left := self._remaining(now)) is not None and not progress.total.finished:
            head.append(f", about {clock(left)} left", "dim")
        if progress.cancelling:
            head.append(f"  {progress.cancelling}", "bold yellow")
        elif progress.rolling_back:
            head.append("  rolling back", "bold yellow")
        return head

    def _remaining(self, now: float) -> float | None:
        made, left = self._left
        if now - made >= 1.0:  # walking the whole plan is for once a second
            made, left = now, self.progress.remaining(now)
            self._left = made, left
        return None if left is None else max(left - (now - made), 0.0)

    @property
    def _bar(self) -> int:
        """How wide bars of phases and hosts are: on a narrow terminal names matter more."""
        return max(_SHORTEST_BAR, min(_BAR, self._console.width // 4))

    def _phases(self, limit: int) -> Table:
        table = _grid()
        modules = list(self.progress.modules.items())
        hidden = 0
        if len(modules) > limit:
            busy = [item for item in modules if not item[1].finished or item[1].bad]
            hidden = len(modules) - min(len(busy), limit - 1)
            modules = busy[: limit - 1]
        for name, tally in modules:
            table.add_row(_sign(tally), name, _bar(tally, self._bar), f"{tally.done}/{tally.total}", _ends(tally))
        if hidden:
            table.add_row("", f"and {hidden} more", "", "", "")
        return table

    def _hosts(self, now: float, limit: int) -> Table:
        table = _grid()
        hosts = list(self.progress.hosts.values())
        shown = hosts
        if len(hosts) > limit:
            shown = sorted((host for host in hosts if host.running), key=lambda host: min(host.running.values()))
            shown = shown[: limit - 1]
        for host in shown:
            table.add_row(_sign(host.tally), host.name, _bar(host.tally, self._bar), *_current(host, now))
        if len(hosts) > limit:
            table.add_row("", f"{len(hosts):,} hosts", "", "", _sum(hosts))
        return table


def _told(failures: list[Failure]) -> list[Text]:
    """One line for each thing that failed, however many hosts it failed on at once."""
    from rich.text import Text

    groups: dict[tuple[str, str, bool], list[str]] = {}
    for failure in failures:
        groups.setdefault((failure.node, failure.message, failure.optional), []).append(failure.host)
    return [
        Text.assemble(
            ("! " if optional else "✗ ", "yellow" if optional else "bold red"),
            (short_hosts(hosts), "bold"),
            f" {node}: {message}",
        )
        for (node, message, optional), hosts in groups.items()
    ]


def _grid() -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    for overflow in ("fold", "ellipsis", "crop", "ellipsis"):
        table.add_column(no_wrap=True, overflow=overflow)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    return table


def _sign(tally: Tally) -> Text:
    from rich.text import Text

    if tally.failed:
        return Text("✗", "red")
    if tally.bad:
        return Text("!", "yellow")
    if tally.finished:
        return Text("✓", "green")
    return Text("●", "cyan") if tally.done or tally.running else Text("·", "dim")


def _bar(tally: Tally, width: int) -> Text:
    from rich.text import Text

    full = int(tally.share * width)
    style = "red" if tally.bad else "green" if tally.finished else "cyan"
    return Text.assemble(("━" * full, style), ("─" * (width - full), "dim"))


def _ends(tally: Tally) -> Text:
    from rich.text import Text

    parts = [f"{tally.changed} changed" if tally.changed else "", f"{tally.bad} not done" if tally.bad else ""]
    return Text(", ".join(part for part in parts if part), "dim")


def _current(host: HostProgress, now: float) -> tuple[str, Text]:
    from rich.text import Text

    done = f"{host.tally.done}/{host.tally.total}" if host.tally.total else str(host.tally.done)
    if host.lost:
        return done, Text("lost", "red")
    if host.running:
        node, since = next(iter(host.running.items()))
        more = f" and {len(host.running) - 1} more" if len(host.running) > 1 else ""
        return done, Text(f"{node} {clock(now - since)}{more}")
    return done, Text("" if host.tally.finished and not host.tally.bad else host.last, "dim")


def _sum(hosts: list[HostProgress]) -> Text:
    from rich.text import Text

    bad = [host for host in hosts if host.tally.bad or host.lost]
    good = [host for host in hosts if not (host.tally.bad or host.lost)]
    done = sum(host.tally.finished for host in good)
    busy = sum(bool(host.running) for host in good)
    text = Text(f"{done:,} done, {busy:,} busy, {len(good) - done - busy:,} between steps", "dim")
    return text.append(f", {len(bad):,} with failures", "red") if bad else text
