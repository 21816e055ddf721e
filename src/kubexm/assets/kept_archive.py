"""Archives of images that were made already, kept for a while: many hosts get the same, as the next cluster may."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from kubexm.assets.bundle import Bundle
from kubexm.assets.disk import replacing
from kubexm.assets.image_archive import ImageArchive
from kubexm.assets.locks import FileLock
from kubexm.assets.manifest import ImageEntry

__all__ = ["kept_archive"]

_KEPT = 6
"""Archives: those of a cluster's roles, twice."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def kept_archive(bundle: Bundle, images: Iterable[ImageEntry], directory: Path) -> tuple[Path, str]:
    """A file with these images, and its sha256: made now, or earlier from the same images."""
    archive = ImageArchive(bundle, images)
    place = directory / f"{archive.identity[:32]}.tar"
    note = place.with_suffix(".sha256")
    with FileLock(place.with_suffix(".lock")):
        known = note.read_text("utf-8") if note.exists() else ""
        if _SHA256.fullmatch(known) and place.exists() and place.stat().st_size == archive.size:
            place.touch()
            return place, known
        _make_room(directory)
        note.unlink(missing_ok=True)
        sha256 = archive.write(place)
        with replacing(note, durable=False) as out:
            out.write(sha256.encode())
        return place, sha256


def _make_room(directory: Path) -> None:
    """Removes the archives that were not used for longest."""
    with contextlib.suppress(OSError):
        found = sorted(directory.glob("*.tar"), key=lambda path: path.stat().st_mtime)
        for path in found[: max(0, len(found) - _KEPT + 1)]:
            path.unlink(missing_ok=True)
            path.with_suffix(".sha256").unlink(missing_ok=True)
