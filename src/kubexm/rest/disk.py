"""Whether the disk the server writes to takes anything: databases and runs fail in many ways when it does not."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import time
from pathlib import Path

from kubexm.service.places import Places
from kubexm.store.store import Store

__all__ = ["DiskProbe"]

_FRESH = 5.0  # seconds an answer is used for: anybody may ask
_SIZE = 64 * 2**10


class DiskProbe:
    """Writes a little file into each directory the server depends on, and removes it."""

    def __init__(self, store: Store, places: Places) -> None:
        self._directories = {places.data, places.work}
        if (file := store.database.file) is not None:
            self._directories.add(file.parent)
        self._lock = asyncio.Lock()
        self._found, self._at = "ok", 0.0

    async def state(self) -> str:
        """`ok`, `full`, or `failed` for any other reason."""
        async with self._lock:
            if not self._at or time.monotonic() - self._at > _FRESH:
                self._found = await asyncio.to_thread(self._probe)
                self._at = time.monotonic()
            return self._found

    def _probe(self) -> str:
        try:
            for directory in self._directories:
                _write(directory)
        except OSError as error:
            return "full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
        return "ok"


def _write(directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(_SIZE))
        file.flush()
        os.fsync(file.fileno())
