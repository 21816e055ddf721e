"""Output of a command as it arrives: handed on whole, kept in memory up to a cap. Must not know where it comes from."""

from __future__ import annotations

import logging
from collections.abc import Callable

__all__ = ["HEAD", "TAIL", "CappedOutput"]

_log = logging.getLogger(__name__)

HEAD = 1024 * 1024
TAIL = 1024 * 1024


class CappedOutput:
    """Keeps the head and the tail of a stream; `size` counts all of it."""

    __slots__ = ("_early", "_head", "_sink", "_tail", "size")

    def __init__(self, sink: Callable[[bytes], None] | None = None) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._sink = sink
        self._early = False
        self.size = 0

    def show_newline(self) -> None:
        """Hands on the end of a line that most probably is one, before it is known: those who follow want to see it."""
        if self._sink is not None and not self._early:
            self._early = True
            self._hand_on(b"\n")

    def write(self, data: bytes) -> None:
        """Takes the next piece."""
        self.size += len(data)
        if self._sink is not None:
            shown = self._early and data.startswith(b"\n")
            self._early = False
            if rest := data[1:] if shown else data:
                self._hand_on(rest)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * TAIL:
                del self._tail[:-TAIL]

    def _hand_on(self, data: bytes) -> None:
        assert self._sink is not None
        try:
            self._sink(data)
        except Exception:  # noqa: BLE001 - whoever listens must not break the connection of everybody else
            self._sink = None
            _log.warning("output is no longer passed on: its receiver failed", exc_info=True)

    @property
    def truncated(self) -> bool:
        """True if something in the middle was not kept."""
        return self.size > HEAD + TAIL

    def value(self) -> bytes:
        """What is kept; where something is missing a line says how much."""
        if not self.truncated:
            return bytes(self._head + self._tail)
        tail = self._tail[-TAIL:]
        missing = self.size - len(self._head) - len(tail)
        return bytes(self._head) + f"\n… {missing} bytes left out …\n".encode() + bytes(tail)
