"""The truth about a run: every event, in order, durable when it must be.

Intent is durable before a change begins. Since the file is written in order, so are the values the change consumes.
Many units share one fsync (group commit), made in a thread, so that the engine never waits for the disk alone.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubexm.errors import JournalError
from kubexm.events import Event, EventKind
from kubexm.store import JournalReader, to_line

__all__ = ["Journal"]

_LINGER = 0.05  # seconds until lines nobody waits for are written anyway, for those who follow the file


class Journal:
    """An append-only file of events. Without a path it numbers events and keeps none: for dry runs and tests."""

    def __init__(self, path: Path | None, *, next_seq: int = 1) -> None:
        self.path = path
        self._next = next_seq
        self._buffer: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._committing: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._error: OSError | None = None
        self._file = -1 if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._thread = None if path is None else ThreadPoolExecutor(1, thread_name_prefix="journal")

    @classmethod
    def create(cls, path: Path) -> Journal:
        """A new journal; its directory entry is durable."""
        if path.exists():
            raise JournalError(f"{path}: a run with this name exists already")
        journal = cls(path)
        _sync_directory(path.parent)
        return journal

    @classmethod
    def reopen(cls, path: Path) -> tuple[Journal, list[Event]]:
        """An existing journal and its events; a torn last line is cut off."""
        reader = JournalReader(path)
        events = list(reader.more())
        if not events:
            raise JournalError(f"{path}: the journal is empty", hint="the run never began; start it anew")
        if path.stat().st_size > reader.offset:
            os.truncate(path, reader.offset)
        return cls(path, next_seq=events[-1].seq + 1), events

    def append(self, kind: EventKind, node: str = "", host: str = "", data: Mapping[str, Any] | None = None) -> Event:
        """Numbers the event and puts it in line to be written."""
        event = Event(self._next, time.time(), kind, node, host, data or {})
        self._next += 1
        if self._thread is not None and self._error is None:
            self._buffer.append(to_line(event))
            if self._linger is None and self._committing is None:
                self._linger = asyncio.get_running_loop().call_later(_LINGER, self._commit)
        return event

    async def durable(self) -> None:
        """Returns once everything appended so far is on the disk."""
        if (pending := self.pending()) is not None:
            await pending

    def pending(self) -> asyncio.Future[None] | None:
        """What is to be awaited until everything appended so far is on the disk; None if it is there."""
        if self._thread is None:
            return None
        if self._error is not None:
            raise self._failure()
        if not self._buffer and self._committing is None:
            return None
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        if self._committing is None:
            self._commit()
        return mine

    async def close(self) -> None:
        """Writes what is left and closes the file."""
        if self._thread is None:
            return
        try:
            while self._buffer or self._committing is not None:
                await self.durable()
        finally:
            if self._linger is not None:
                self._linger.cancel()
            self._thread.shutdown()
            self._thread = None
            os.close(self._file)

    def _commit(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._committing is None and (self._buffer or self._waiting):
            self._committing = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        assert self._thread is not None
        loop = asyncio.get_running_loop()
        try:
            while self._buffer or self._waiting:
                await asyncio.sleep(0)  # let everyone who is ready add to this batch
                lines, self._buffer = self._buffer, []
                waiting, self._waiting = self._waiting, []
                try:
                    if lines:
                        await loop.run_in_executor(self._thread, self._write, lines)
                except OSError as error:
                    self._error = error
                    self._buffer.clear()
                    waiting += self._waiting
                    self._waiting = []
                for future in waiting:
                    if not future.done():
                        if self._error is None:
                            future.set_result(None)
                        else:
                            future.set_exception(self._failure())
        finally:
            self._committing = None

    def _write(self, lines: Iterable[bytes]) -> None:
        data = memoryview(b"".join(lines))
        while data:
            data = data[os.write(self._file, data) :]
        os.fdatasync(self._file)

    def _failure(self) -> JournalError:
        assert self._error is not None
        return JournalError(
            f"{self.path}: the journal cannot be written: {self._error.strerror}",
            hint="nothing more is started; free the disk or mend the directory, then `kubexm runs resume`",
        )


def _sync_directory(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
