"""Shows a build on a terminal: what is finished, what is being made, how far it is and how long it has taken."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kubexm.lab.bundle.progress import duration

__all__ = ["LiveProgress"]


class LiveProgress:
    """A bar over all artefacts, a line for the one being made, and a line left behind for each that is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[what]}", table_column=None),
            console=console,
            transient=True,
        )
        self._all = self._bars.add_task("bundle", total=None, what="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def planned(self, to_make: int, total: int) -> None:
        """The bar begins with what is there."""
        self._bars.update(self._all, total=total, completed=total - to_make)

    def started(self, name: str, number: int, of: int) -> None:
        """The line is about this one now."""
        self._bars.update(self._all, description=f"[bold]{escape(name)}", what="")

    def doing(self, name: str, what: str) -> None:
        """The end of the line changes."""
        room = max(20, self._console.width - 75)
        self._bars.update(self._all, what=escape(what if len(what) <= room else what[: room - 1] + "…"))

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        """One more is done."""
        how = duration(seconds) if made else "is there already"
        self._console.print(f"[green]✓[/] {escape(name)} [dim]{how}[/]")
        self._bars.update(self._all, advance=1, what="")

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"[dim]{escape(text)}[/]")
