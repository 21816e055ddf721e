"""Copies a run's journal into the store: in bulk, in order, losing nothing, and off the path of whoever writes it.

The journal is the truth. The tail remembers nothing the store does not know: after a failure, or a time away, it reads
the journal again behind the last event the store has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kubexm.events import Event
from kubexm.store.journal_file import JournalReader
from kubexm.store.run_rows import Tally
from kubexm.store.runs import Runs

__all__ = ["JournalTail"]

_BATCH = 1000


class JournalTail:
    """Follows the journal of one task."""

    def __init__(self, runs: Runs, task: int, journal: Path) -> None:
        self._runs = runs
        self._task = task
        self._journal = journal
        self._reader: JournalReader | None = None
        self._tally = Tally()
        self._more: Iterator[Event] = iter(())
        self.over = False
        """True while the last event that was taken is the end of the run."""

    async def catch_up(self, *, batches: int | None = None) -> int:
        """Takes what the journal has and the store does not, at most so many batches; says how many events."""
        taken = 0
        try:
            while batches is None or batches > 0:
                batch = await self._next()
                if not batch:
                    break
                self.over = await self._runs.take(self._task, batch, self._tally)
                taken += len(batch)
                batches = None if batches is None else batches - 1
        except BaseException:
            self._reader = None  # what was read and not kept is read again
            raise
        return taken

    async def _next(self) -> list[Event]:
        if self._reader is None:
            if not self._journal.exists():
                return []
            await self._begin()
        assert self._reader is not None
        batch = list(islice(self._more, _BATCH))
        if not batch:
            self._more = self._reader.more()
            batch = list(islice(self._more, _BATCH))
        return batch

    async def _begin(self) -> None:
        seq, time = await self._runs.last(self._task)
        if seq and not _agrees(self._journal, seq, time):
            # A power cut took the end of the journal before it was on the disk, and a resume wrote another.
            await self._runs.drop(self._task)
            seq = 0
        self._tally = await self._runs.tally(self._task)
        self._reader = JournalReader(self._journal, after=seq)
        self._more = iter(())


def _agrees(journal: Path, seq: int, time: float) -> bool:
    event = next(JournalReader(journal, after=seq - 1).more(), None)
    return event is not None and (event.seq, event.time) == (seq, time)
