"""What is told while a bundle is built, and the two ways of telling it that need no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["PlainProgress", "Progress", "SilentProgress", "duration"]


class Progress(Protocol):
    """Watches a build."""

    def planned(self, to_make: int, total: int) -> None:
        """So many artefacts there are, and so many of them are not there yet."""
        ...

    def started(self, name: str, number: int, of: int) -> None:
        """This artefact is being made, the so-manieth of those to be made."""
        ...

    def doing(self, name: str, what: str) -> None:
        """What is being done for it just now; called often."""
        ...

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        """It is there: made now, or there after all (by another build, or its inputs turned out to be as before)."""
        ...

    def note(self, text: str) -> None:
        """Something else worth telling."""
        ...


class SilentProgress:
    """Tells nothing."""

    def planned(self, to_make: int, total: int) -> None:
        """Not told."""

    def started(self, name: str, number: int, of: int) -> None:
        """Not told."""

    def doing(self, name: str, what: str) -> None:
        """Not told."""

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        """Not told."""

    def note(self, text: str) -> None:
        """Not told."""


class PlainProgress:
    """One line when something begins, one when it ends, and a sign of life in between."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic, every: float = 30
    ) -> None:
        self._write = write
        self._clock = clock
        self._every = every
        self._began = clock()
        self._last = clock()
        self._place = ""

    def planned(self, to_make: int, total: int) -> None:
        """How much there is to do."""
        if to_make:
            self._write(f"{to_make} of {total} artefacts are to be made, {total - to_make} are there")

    def started(self, name: str, number: int, of: int) -> None:
        """One line."""
        self._place = f"[{number}/{of}]"
        self._last = self._clock()
        self._write(f"{self._place} {name}: making it ({self._elapsed()})")

    def doing(self, name: str, what: str) -> None:
        """A line now and then, so that a log shows it is alive."""
        now = self._clock()
        if now - self._last >= self._every:
            self._last = now
            self._write(f"{self._place} {name}: {what} ({self._elapsed()})")

    def finished(self, name: str, seconds: float, *, made: bool) -> None:
        """One line."""
        how = f"done in {duration(seconds)}" if made else "is there already"
        self._write(f"{self._place} {name}: {how}")

    def note(self, text: str) -> None:
        """One line."""
        self._write(text)

    def _elapsed(self) -> str:
        return f"{duration(self._clock() - self._began)} so far"


def duration(seconds: float) -> str:
    """95 is 1 m 35 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"
