"""Lines written by a thread of their own: a pager that stalls or a pipe that is gone never holds up a run."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TextIO

__all__ = ["LineWriter"]


class LineWriter:
    """Takes lines without ever waiting, and writes them in order."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._lines: deque[str] = deque()
        self._more = threading.Event()
        self._closing = False
        self.broken = False
        """True once nobody reads any more."""
        self._thread = threading.Thread(target=self._work, name="output", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Puts one line, or several joined by newlines, in line."""
        if not self.broken:
            self._lines.append(line)
            self._more.set()

    def close(self) -> None:
        """Returns when everything was written, or nobody reads."""
        self._closing = True
        self._more.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self._more.wait()
            self._more.clear()
            closing = self._closing
            try:
                self._drain()
            except (OSError, ValueError):  # the reader has gone, or the stream was closed: the run goes on unseen
                self.broken = True
                self._lines.clear()
            if closing or self.broken:
                return

    def _drain(self) -> None:
        wrote = False
        while self._lines:
            self._stream.write(self._lines.popleft() + "\n")
            wrote = True
        if wrote:
            self._stream.flush()
