"""Downloaded files, kept by their sha256 so that nothing is fetched twice, also by two processes at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from kubexm.assets.disk import hash_file
from kubexm.assets.layout import check_sha256
from kubexm.assets.locks import locked
from kubexm.assets.oci import BlobStore

__all__ = ["FileCache", "default_cache"]


def default_cache() -> Path:
    """Where kubexm keeps what can be had again: KUBEXM_CACHE, or `kubexm` in the user's cache directory."""
    if named := os.environ.get("KUBEXM_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kubexm"


class FileCache:
    """Files named by their sha256 in a directory; each is there whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.images = BlobStore(directory / "blobs")
        """Blobs of images, likewise."""

    def path(self, sha256: str) -> Path:
        """Where a file is, or would be."""
        return self.directory / "files" / check_sha256(sha256)

    async def obtain(self, sha256: str, fetch: Callable[[Path], Awaitable[object]]) -> Path:
        """The file with this sha256; `fetch` puts it in its place if it is not there, or is damaged.

        Of several who ask at the same time one fetches and the others wait for it.
        """
        path = self.path(sha256)
        if await asyncio.to_thread(_intact, path, sha256):
            return path
        async with locked(path.with_name(f".{sha256}.lock")):
            if not await asyncio.to_thread(_intact, path, sha256):
                path.unlink(missing_ok=True)
                await fetch(path)
        return path


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and hash_file(path)[1] == sha256
