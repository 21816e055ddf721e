"""The journal as a file: one event a line, each with a checksum. Whoever reads a run (a store, a page) tails this.

A crash can tear only the end of the last line; such a tail is ignored. Damage anywhere else is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from kubexm.errors import JournalError
from kubexm.events import Event

__all__ = ["JournalReader", "read_journal", "to_line"]

_PIECE = 2**22


def to_line(event: Event) -> bytes:
    """The event as a line of the journal."""
    text = event.to_json()
    return b"%08x %b\n" % (zlib.crc32(text), text)


class JournalReader:
    """Follows a journal: each call of `more` gives the events that are whole since the last."""

    def __init__(self, path: Path, *, after: int = 0, offset: int = 0) -> None:
        """`offset` is where a line begins that is not behind `after`, for those who know one: saves reading all."""
        self.path = path
        self.offset = offset
        """Where the whole lines read so far end."""
        self._after = after
        self._line = 0

    def more(self) -> Iterator[Event]:
        """The next events, in order, after the sequence number asked for."""
        size = _PIECE
        while True:
            data = self._read(size)
            start = 0
            while (end := data.find(b"\n", start)) >= 0:
                self._line += 1
                event = self._parse(data[start:end])
                self.offset += end + 1 - start
                start = end + 1
                if event is not None and event.seq > self._after:
                    self._after = event.seq
                    yield event
            if len(data) < size:
                return
            if not start:  # a line longer than this
                size *= 2

    def _read(self, size: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return file.read(size)
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from error

    def _parse(self, line: bytes) -> Event | None:
        """The event of a line; None if it is one of those that were asked to be left out."""
        checksum, _, text = line.partition(b" ")
        try:
            if checksum == b"%08x" % zlib.crc32(text):
                return None if self._seen(text) else Event.from_json(text)
        except ValueError:
            pass
        raise JournalError(
            f"{self.path}:{self._line}: this line of the journal is damaged",
            hint="the run cannot be resumed; `kubexm create` on the same cluster.yaml is always safe",
        )

    def _seen(self, text: bytes) -> bool:
        """True if the number a line begins with is not after the one asked for: what follows need not be read."""
        return self._after > 0 and int(text[1 : text.index(b",")]) <= self._after


def read_journal(path: Path) -> list[Event]:
    """All events of a journal."""
    return list(JournalReader(path).more())
