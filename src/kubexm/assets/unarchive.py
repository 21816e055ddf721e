"""Reads a packed bundle without trusting it: nothing is read beyond what its own index and manifest announce.

`PackedBundle` knows frames and bytes; what a bundle must hold is the manifest's business, and `scan`'s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kubexm.assets.archive import FRAME, INDEX_HEAD, INDEX_MAGIC
from kubexm.assets.disk import human_size
from kubexm.assets.layout import MANIFEST, META
from kubexm.assets.manifest_json import MAX_MANIFEST
from kubexm.assets.tarball import BLOCK, parse_header
from kubexm.errors import AssetError

__all__ = ["CutShort", "FrameDamaged", "FrameReader", "PackedBundle"]

_MAX_META = MAX_MANIFEST + 1024 * 1024
_STEP = 256  # bytes of input at a time: zstd turns three of them into at most 128 KiB, so a bomb stays small


class CutShort(AssetError):
    """An archive whose end is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="It was cut short on its way. Copy or download it once more.")


class FrameDamaged(AssetError):
    """One frame of the archive does not decompress to what it should; the others may still be whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    offsets: tuple[int, ...]
    lengths: tuple[int, ...]


class PackedBundle:
    """A .tar.zst that `pack` wrote: its meta files, and its tar stream by offset."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except FileNotFoundError:
            raise AssetError(f"the bundle {path} is not there") from None
        try:
            self.size = path.stat().st_size
            self.meta, self.meta_end = self._read_meta()
            self._frames = self._read_index()
        except BaseException:
            self._file.close()
            raise
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="unpack")

    def close(self) -> None:
        """Closes the file."""
        self._pool.shutdown(cancel_futures=True)
        self._file.close()

    @property
    def pieces(self) -> int:
        """How many frames the tar stream is in."""
        return len(self._frames.lengths)

    @property
    def frame_lengths(self) -> list[int]:
        """How long each frame of the tar stream is in the file."""
        return list(self._frames.lengths)

    @property
    def data_start(self) -> int:
        """Where in the file the frames of the tar stream begin."""
        return self.meta_end + INDEX_HEAD.size + 4 * self.pieces

    def reader(self) -> FrameReader:
        """A way through the tar stream; each has its own, so that several threads can read at once."""
        return FrameReader(self, self._pool)

    def decompress(self, number: int) -> bytes:
        """One piece of the tar stream; FrameDamaged if it is not what it should be."""
        import zstandard

        data = self._raw(number)
        size = self._content_size(data, number)
        if number < self.pieces - 1 and size != FRAME:
            raise FrameDamaged(f"{self.path} is damaged at byte {self._frames.offsets[number]}: a frame is too short")
        try:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
        except zstandard.ZstdError as error:
            start = self._frames.offsets[number]
            raise FrameDamaged(f"{self.path} is damaged between bytes {start} and {start + len(data)}") from error

    def _content_size(self, data: bytes, number: int) -> int:
        import zstandard

        try:
            size = zstandard.get_frame_parameters(data).content_size
        except zstandard.ZstdError as error:
            raise FrameDamaged(f"{self.path} is damaged at byte {self._frames.offsets[number]}") from error
        if not 0 < size <= FRAME:
            raise FrameDamaged(f"{self.path} is damaged at byte {self._frames.offsets[number]}: a frame is too long")
        return size

    def _raw(self, number: int) -> bytes:
        return os.pread(self._file.fileno(), self._frames.lengths[number], self._frames.offsets[number])

    def _read_meta(self) -> tuple[dict[str, bytes], int]:
        data, end = self._first_frame()
        meta: dict[str, bytes] = {}
        for name, content in _members(data, str(self.path)):
            if name not in META or name in meta:
                raise AssetError(f"{self.path} is not a kubexm bundle: it begins with {name!r}")
            meta[name] = content
        if MANIFEST not in meta:
            raise AssetError(f"{self.path} is not a kubexm bundle: it has no {MANIFEST}")
        return meta, end

    def _first_frame(self) -> tuple[bytes, int]:
        """The first frame's content, and where it ends in the file."""
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=128 * 1024 * 1024).decompressobj()
        parts: list[bytes] = []
        size = 0
        try:
            while not decompressor.eof:
                chunk = self._file.read(_STEP)
                if not chunk:
                    raise CutShort(f"{self.path} ends after {self.size} bytes, within its manifest")
                part = decompressor.decompress(chunk)
                parts.append(part)
                size += len(part)
                if size > _MAX_META:
                    raise AssetError(f"{self.path} is not a kubexm bundle: its manifest is larger than any real one")
        except zstandard.ZstdError as error:
            raise AssetError(
                f"{self.path} is not a kubexm bundle, or is damaged at its very beginning: {error}",
                hint="A bundle is a directory or a .tar.zst that `kubexm bundle` made.",
            ) from error
        return b"".join(parts), self._file.tell() - len(decompressor.unused_data)

    def _read_index(self) -> _Frames:
        self._file.seek(self.meta_end)
        head = self._file.read(INDEX_HEAD.size)
        if len(head) < INDEX_HEAD.size:
            raise CutShort(f"{self.path} ends after {self.size} bytes, within its index")
        magic, length, own, total, piece, count = INDEX_HEAD.unpack(head)
        if magic >> 4 != 0x184D2A5 or own != INDEX_MAGIC or piece != FRAME or length != len(head) - 8 + 4 * count:
            raise AssetError(
                f"{self.path} was not packed by kubexm, or its index is damaged",
                hint="Unpack it with `tar --zstd -xf` and use the directory.",
            )
        lengths_are = (
            f"{self.size} bytes ({human_size(self.size)}) are there, {total} ({human_size(total)}) belong there"
        )
        if self.size < total:
            raise CutShort(f"{self.path} is cut short: {lengths_are}")
        if self.size > total:
            raise AssetError(
                f"{self.path} is longer than it should be: {lengths_are}",
                hint="Something was added to it. Copy or download it once more.",
            )
        raw = self._file.read(4 * count) if 4 * count <= self.size else b""
        if len(raw) != 4 * count:
            raise AssetError(f"{self.path} is damaged: its index does not fit into it")
        lengths = struct.unpack(f"<{count}I", raw)
        offsets: list[int] = []
        at = self.meta_end + len(head) + len(raw)
        for each in lengths:
            offsets.append(at)
            at += each
        if at != total:
            raise AssetError(f"{self.path} is damaged: its index does not add up")
        return _Frames(offsets=tuple(offsets), lengths=lengths)


class FrameReader:
    """Reads the tar stream by offset, for one thread; pieces that come next are decompressed meanwhile."""

    def __init__(self, packed: PackedBundle, pool: ThreadPoolExecutor) -> None:
        self._packed = packed
        self._pool = pool
        self._held: dict[int, Future[bytes]] = {}

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the tar stream, fewer at its end; FrameDamaged if a frame they are in is."""
        parts: list[bytes] = []
        while length > 0 and offset < self._packed.pieces * FRAME:
            number, within = divmod(offset, FRAME)
            part = self._frame(number)[within : within + length]
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def _frame(self, number: int) -> bytes:
        window = range(number, min(number + 3, self._packed.pieces))
        for ahead in window:
            if ahead not in self._held:
                self._held[ahead] = self._pool.submit(self._packed.decompress, ahead)
        for old in [each for each in self._held if each not in window]:
            self._held.pop(old).cancel()
        return self._held[number].result()


def _members(data: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        member = parse_header(data[at : at + BLOCK])
        if member is None or member.kind:
            what = f"it begins with {member.kind}" if member else "its first header is damaged"
            raise AssetError(f"{where} is not a kubexm bundle: {what}")
        at += BLOCK
        content = data[at : at + member.size]
        if len(content) != member.size:
            raise AssetError(f"{where} is not a kubexm bundle: its {member.name} is not whole")
        yield member.name, content
        at += member.size + -member.size % BLOCK
