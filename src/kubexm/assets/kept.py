"""Forms of a bundle's content that hosts get, made once and kept for a while: for many hosts, and the next cluster.

Images travel as one archive. A program or an archive of programs travels packed with zstd where the host can unpack
that: a quarter of the bytes for programs, and a tenth of the time gzip takes to unpack.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from kubexm.assets.bundle import Bundle
from kubexm.assets.disk import CHUNK, replacing
from kubexm.assets.image_archive import ImageArchive
from kubexm.assets.locks import FileLock
from kubexm.assets.manifest import ImageEntry
from kubexm.errors import AssetError

__all__ = ["kept_archive", "kept_packed", "packs"]

_ARCHIVES: Final = 6
"""Those of a cluster's roles, twice."""
_PACKED: Final = 48
"""Files of a cluster, twice."""
_LEVEL: Final = 3
_GZIPPED: Final = (".tar.gz", ".tgz")
_WORTH: Final = 1024 * 1024
_NOTE: Final = re.compile(r"([0-9a-f]{64}) ([0-9]+)")


def kept_archive(bundle: Bundle, images: Iterable[ImageEntry], directory: Path) -> tuple[Path, str]:
    """A file with these images, and its sha256."""
    archive = ImageArchive(bundle, images)
    return _kept(directory / f"{archive.identity[:32]}.tar", archive.write, most=_ARCHIVES)


def packs(name: str, size: int) -> bool:
    """Whether a file is worth packing: large, and not packed in a way that is as good."""
    return size >= _WORTH and not name.endswith((".tar.xz", ".txz", ".tar.zst", ".tzst"))


def kept_packed(source: Path, sha256: str, directory: Path) -> tuple[Path, str]:
    """The file packed with zstd (a gzipped archive: repacked), and the sha256 of that. AssetError if it is damaged."""
    suffix = ".tar.zst" if source.name.endswith(_GZIPPED) else ".zst"
    return _kept(directory / f"{sha256[:32]}{suffix}", lambda place: _pack(source, sha256, place), most=_PACKED)


def _kept(place: Path, make: Callable[[Path], str], *, most: int) -> tuple[Path, str]:
    """What was made earlier, and its sha256; made now if it is not there any more."""
    note = place.with_name(f"{place.name}.sha256")
    with FileLock(place.with_name(f"{place.name}.lock")):
        known = _NOTE.fullmatch(note.read_text("utf-8")) if note.exists() else None
        if known is not None and place.exists() and place.stat().st_size == int(known[2]):
            place.touch()
            return place, known[1]
        _make_room(place, most)
        note.unlink(missing_ok=True)
        sha256 = make(place)
        with replacing(note, durable=False) as out:
            out.write(f"{sha256} {place.stat().st_size}".encode())
        return place, sha256


def _make_room(place: Path, most: int) -> None:
    """Removes those of its kind that were not used for longest."""
    with contextlib.suppress(OSError):
        found = sorted(place.parent.glob(f"*{place.suffix}"), key=lambda path: path.stat().st_mtime)
        for path in found[: max(0, len(found) - most + 1)]:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.sha256").unlink(missing_ok=True)


def _pack(source: Path, sha256: str, target: Path) -> str:
    import zstandard

    packed, compressor = hashlib.sha256(), zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    with replacing(target, durable=False) as out:

        def add(data: bytes) -> None:
            packed.update(data)
            out.write(data)

        for chunk in _content(source, sha256):
            add(compressor.compress(chunk))
        add(compressor.flush())
    return packed.hexdigest()


def _content(source: Path, sha256: str) -> Iterator[bytes]:
    """What is to be packed, piece by piece; AssetError in the end if the file is not the one it should be."""
    digest = hashlib.sha256()
    unpacked = zlib.decompressobj(wbits=31) if source.name.endswith(_GZIPPED) else None
    try:
        with source.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                while unpacked is not None and chunk:
                    yield unpacked.decompress(chunk)
                    chunk = unpacked.unused_data
                    if unpacked.eof:  # gzip allows several in a row
                        unpacked = zlib.decompressobj(wbits=31)
                if unpacked is None:
                    yield chunk
    except zlib.error as error:
        raise AssetError(f"{source} is damaged: {error}", hint="`kubexm bundle verify` tells what else is") from error
    except OSError as error:
        raise AssetError(f"{source} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != sha256:
        raise AssetError(
            f"{source} is damaged: its sha256 is not the one its bundle names", hint="`kubexm bundle verify` tells more"
        )
