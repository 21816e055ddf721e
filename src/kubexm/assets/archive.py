"""A bundle as one .tar.zst: written so that equal bundles are equal bytes, and any part can be read by itself.

The tar stream is cut into pieces of a fixed length, each compressed into a zstd frame of its own, so the bytes depend
on neither the number of threads nor their timing. The manifest and its companions fill the first frame alone: they can
be read, and signed, without touching the rest. After it comes a skippable frame that lists the length of every other
frame, so a file cut short is seen at once and damage in one frame hides nothing in the next. `tar --zstd -xf` unpacks
it like any other archive.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from kubexm.assets.disk import CHUNK, replacing
from kubexm.assets.layout import MANIFEST, META
from kubexm.assets.manifest import Entry, Manifest
from kubexm.assets.tarball import END, member_length, padding, tar_header
from kubexm.errors import AssetError

__all__ = ["FRAME", "LEVEL", "index_frame", "index_length", "meta_frame", "pack", "stream_length"]

FRAME = 8 * 1024 * 1024
LEVEL = 3
"""Most of a bundle is compressed already; more effort costs minutes and saves little."""

INDEX_HEAD = struct.Struct("<II16sQII")
"""zstd's magic and length of a skippable frame; then ours: magic, length of the whole file, piece length, count."""
_SKIPPABLE = 0x184D2A5B
INDEX_MAGIC = b"kubexm-bundle-1\x00"


def pack(directory: Path, target: Path, *, threads: int = 0) -> None:
    """Packs the bundle at `directory` into `target`, whole or not at all; each file is checked on the way in."""
    manifest = Manifest.from_json(_read_meta(directory, MANIFEST), where=str(directory / MANIFEST))
    meta = {name: _read_meta(directory, name) for name in META if (directory / name).exists()}
    entries = sorted(manifest.entries(), key=lambda entry: entry.path)
    pieces = -(-stream_length(entries) // FRAME)
    with replacing(target) as out:
        head = meta_frame(meta)
        out.write(head)
        out.write(bytes(index_length(pieces)))
        lengths: list[int] = []
        for frame in _compressed(_pieces(_stream(directory, entries)), threads or os.cpu_count() or 1):
            out.write(frame)
            lengths.append(len(frame))
        total = out.tell()
        out.seek(len(head))
        out.write(index_frame(lengths, total))


def meta_frame(meta: dict[str, bytes]) -> bytes:
    """The frame every archive begins with: the manifest and its companions, in their fixed order."""
    parts: list[bytes] = []
    for name in META:
        if name in meta:
            parts += [tar_header(name, len(meta[name])), meta[name], padding(len(meta[name]))]
    return _compress(b"".join(parts))


def index_length(pieces: int) -> int:
    """How long the frame that lists so many lengths is."""
    return INDEX_HEAD.size + 4 * pieces


def index_frame(lengths: list[int], total: int) -> bytes:
    """The skippable frame that lists the lengths of the frames after it, and the length of the whole file."""
    length = index_length(len(lengths)) - 8
    head = INDEX_HEAD.pack(_SKIPPABLE, length, INDEX_MAGIC, total, FRAME, len(lengths))
    return head + struct.pack(f"<{len(lengths)}I", *lengths)


def stream_length(entries: Iterable[Entry]) -> int:
    """How long the tar of these entries is, apart from the manifest and its companions."""
    return sum(member_length(entry.size) for entry in entries) + len(END)


def _compress(piece: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress(piece)


def _compressed(pieces: Iterator[bytes], workers: int) -> Iterator[bytes]:
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(_compress, piece))
                if len(waiting) > workers + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _pieces(stream: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for chunk in stream:
        held += chunk
        while len(held) >= FRAME:
            yield bytes(held[:FRAME])
            del held[:FRAME]
    if held:
        yield bytes(held)


def _stream(directory: Path, entries: list[Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield tar_header(entry.path, entry.size)
        path = directory / entry.path
        digest, size = hashlib.sha256(), 0
        with _open_plain(path) as stream:
            while chunk := stream.read(CHUNK):
                size += len(chunk)
                digest.update(chunk)
                yield chunk
        if (size, digest.hexdigest()) != (entry.size, entry.sha256):
            raise AssetError(
                f"{path} is damaged: expected sha256 {entry.sha256} and {entry.size} bytes, "
                f"got {digest.hexdigest()} and {size} bytes",
                hint="`kubexm bundle verify` lists all that is wrong with a bundle.",
            )
        yield padding(entry.size)
    yield END


def _read_meta(directory: Path, name: str) -> bytes:
    with _open_plain(directory / name) as stream:
        return stream.read()


def _open_plain(path: Path) -> BinaryIO:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise AssetError(f"{path} is not a plain file")
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise AssetError(f"{path} is missing") from None
