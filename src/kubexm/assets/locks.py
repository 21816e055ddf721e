"""One process at a time, by flock: the lock goes with its process, so a killed run leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kubexm.assets.disk import write_errors

__all__ = ["FileLock", "locked"]


class FileLock:
    """An exclusive lock with a file of its own, which is removed when the lock is given up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1

    def try_acquire(self) -> bool:
        """Takes the lock if nobody has it."""
        return self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def acquire(self) -> None:
        """Takes the lock, waiting for whoever has it."""
        while not self._take(fcntl.LOCK_EX):
            pass  # its last owner removed the file while we waited: the next round makes a new one

    def release(self) -> None:
        """Gives the lock up; harmless if it is not held."""
        if self._handle >= 0:
            self.path.unlink(missing_ok=True)  # before the lock goes, so that nobody else's file is removed
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self, how: int) -> bool:
        with write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, how)
        except BlockingIOError:
            os.close(handle)
            return False
        if os.fstat(handle).st_nlink == 0:
            os.close(handle)
            return False
        self._handle = handle
        return True


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Holds the lock while the block runs; waits for it without holding up anybody else in this process."""
    lock = FileLock(path)
    wait = 0.01
    while not lock.try_acquire():
        await asyncio.sleep(wait)
        wait = min(2 * wait, 0.5)
    try:
        yield
    finally:
        lock.release()
