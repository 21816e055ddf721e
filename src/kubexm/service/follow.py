"""Following a task live: its journal as it grows, shared by all who watch, each at their own pace.

Only what is in the journal file is shown, under its sequence number: whoever comes back with the last number they saw
misses nothing and sees nothing twice. The last frames are kept in memory; what is older is read from the file, so that
a slow follower costs nothing but time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import orjson

from kubexm.errors import JournalError
from kubexm.events import Event
from kubexm.store import JournalReader
from kubexm.store.run_rows import event_data
from kubexm.store.runs import KeptEvent
from kubexm.store.texts import to_json

__all__ = ["Channel", "Followers", "frame_of", "kept_frame"]

_TICK = 0.02
_TICK_FOR_EACH = 0.0005  # with many followers fewer, larger pieces
_MOST_TICK = 0.25
_PIECE = 500
_MOST_FRAMES = 20_000
_CHECKPOINT = 500


def frame_of(event: Event) -> bytes:
    """An event as server-sent events have it."""
    return _frame(event.seq, event.time, event.kind.value, event.node, event.host, to_json(event_data(event)))


def kept_frame(event: KeptEvent) -> bytes:
    """The same, of an event from the store."""
    return _frame(event.seq, event.time, event.kind, event.node, event.host, event.data)


def _frame(seq: int, moment: float, kind: str, node: str, host: str, data: str) -> bytes:
    try:
        head = orjson.dumps({"seq": seq, "time": moment, "kind": kind, "node": node, "host": host})
    except TypeError:
        head = to_json({"seq": seq, "time": moment, "kind": kind, "node": node, "host": host}).encode()
    return b'id: %d\nevent: %b\ndata: %b,"data":%b}\n\n' % (seq, kind.encode(), head[:-1], data.encode())


class Channel:
    """The journal of one task, as frames."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._reader = JournalReader(journal)
        self._seqs: list[int] = []
        self._frames: list[bytes] = []
        self._offsets: list[tuple[int, int]] = [(0, 0)]
        self._changed = asyncio.Event()
        self._pieces: dict[int, tuple[bytes, int]] = {}
        self.last = 0
        """The newest sequence number read."""
        self.followers = 0
        self.changes = 0
        """Grows whenever something about the task changed that is not in its journal."""
        self.error: JournalError | None = None

    def read(self) -> bool:
        """Takes in what the journal has by now, at most one piece; True if there may be more."""
        if self.error is not None or not self._journal.exists():
            return False
        count = 0
        try:
            for event in islice(self._reader.more(), _PIECE):
                self._seqs.append(event.seq)
                self._frames.append(frame_of(event))
                self.last = event.seq
                count += 1
        except JournalError as error:
            self.error = error
        if self.last - self._offsets[-1][0] >= _CHECKPOINT:
            self._offsets.append((self.last, self._reader.offset))
        if len(self._frames) > _MOST_FRAMES:
            del self._frames[: -_MOST_FRAMES // 2], self._seqs[: -_MOST_FRAMES // 2]
        if count or self.error is not None:
            self._pieces.clear()
            self.wake()
        return count == _PIECE

    def wake(self) -> None:
        """Lets everyone who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Returns when there is something new, or the task's state has changed."""
        await self._changed.wait()

    def after(self, seq: int, most: int = _PIECE) -> tuple[bytes, int]:
        """Frames behind this sequence number, as one piece, and the number of the last of them."""
        if seq >= self.last:
            return b"", seq
        if seq not in self._pieces:  # most followers are at the same place, and share a piece
            self._pieces[seq] = self._joined(seq, most)
        return self._pieces[seq]

    def _joined(self, seq: int, most: int) -> tuple[bytes, int]:
        if not self._seqs or seq < self._seqs[0] - 1:
            return self._from_file(seq, most)
        start = bisect_right(self._seqs, seq)
        end = min(start + most, len(self._frames))
        return b"".join(self._frames[start:end]), self._seqs[end - 1]

    def _from_file(self, seq: int, most: int) -> tuple[bytes, int]:
        known = self._offsets[bisect_right(self._offsets, (seq, 2**62)) - 1]
        reader = JournalReader(self._journal, after=seq, offset=known[1])
        events = list(islice((event for event in reader.more() if event.seq <= self.last), most))
        return (b"".join(map(frame_of, events)), events[-1].seq) if events else (b"", self.last)


class Followers:
    """The channels of all tasks somebody watches; each journal is read once however many watch it."""

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def channel(self, task: str, journal: Path) -> AsyncIterator[Channel]:
        """Within, the task's journal is read as it grows."""
        channel = self._channels.get(task)
        if channel is None:
            channel = self._channels[task] = Channel(journal)
            self._reading[task] = asyncio.create_task(self._read(channel))
        channel.followers += 1
        try:
            yield channel
        finally:
            channel.followers -= 1
            if not channel.followers and self._channels.get(task) is channel:
                del self._channels[task]
                self._reading.pop(task).cancel()

    @property
    def count(self) -> int:
        """How many watch."""
        return sum(channel.followers for channel in self._channels.values())

    def wake(self, task: str) -> None:
        """Something about the task changed that is not in its journal."""
        if (channel := self._channels.get(task)) is not None:
            while channel.read():
                pass
            channel.changes += 1
            channel.wake()

    async def _read(self, channel: Channel) -> None:
        while True:
            more = channel.read()
            tick = min(_TICK + _TICK_FOR_EACH * channel.followers, _MOST_TICK)
            await asyncio.sleep(0 if more else tick)
