"""A cluster's file and uploads, laid out where a worker reads them, for as long as a task of it is under way."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubexm.errors import StoreError
from kubexm.service.places import Places, private_directory
from kubexm.store.store import Store

__all__ = ["Staging"]

FILE = "cluster.yaml"


class Staging:
    """Opens what is sealed, into a directory of its own for each cluster."""

    def __init__(self, places: Places, store: Store) -> None:
        self._places = places
        self._store = store
        self._users: Counter[str] = Counter()

    def clear(self) -> None:
        """Removes what a server that was killed left behind."""
        for base in {self._places.staged("x").parent, self._places.data / "staged"}:
            shutil.rmtree(base, ignore_errors=True)

    @asynccontextmanager
    async def laid_out(self, cluster: str) -> AsyncIterator[Path]:
        """Within, the newest spec and all uploads lie in a directory; the last one out removes it."""
        place = self._places.staged(cluster)
        spec = await self._store.clusters.spec(cluster)
        files = await self._store.vault.open_files(cluster)
        self._users[cluster] += 1
        try:
            private_directory(place.parent)
            private_directory(place)
            private_directory(self._places.home(cluster))
            for name, content in {**files, FILE: spec.text.encode()}.items():
                _write(place / name, content)
            self._link_bundles(place, set(files))
            yield place / FILE
        finally:
            self._users[cluster] -= 1
            if not self._users[cluster]:
                shutil.rmtree(place, ignore_errors=True)
                with contextlib.suppress(OSError):  # another cluster's files are there
                    place.parent.rmdir()

    def _link_bundles(self, place: Path, taken: set[str]) -> None:
        """Bundles of the server can be named like uploads; they are too large to be copied."""
        for bundle in self._places.bundles.iterdir():
            link = place / bundle.name
            if bundle.name not in taken and not link.is_symlink() and not link.exists():
                link.symlink_to(bundle)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: another task of the cluster may be reading it."""
    temporary = path.with_name(f".{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
