"""A bundle to read from, whether it is a directory or one .tar.zst. Every byte it gives out is checked on the way."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from kubexm.assets.archive import index_frame, meta_frame, stream_length
from kubexm.assets.disk import CHUNK, human_size, remove_tree, replacing, write_errors
from kubexm.assets.layout import MANIFEST, SIGNATURE
from kubexm.assets.locks import FileLock
from kubexm.assets.manifest import Entry, Manifest
from kubexm.assets.scan import scan_packed
from kubexm.assets.tarball import BLOCK, member_length, tar_header
from kubexm.assets.unarchive import FrameDamaged, PackedBundle
from kubexm.assets.verification import check_meta, read_meta, signer
from kubexm.errors import AssetError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from kubexm.assets.signing import PrivateKey

__all__ = ["Bundle"]

_DAMAGED = "`kubexm bundle verify` lists all that is wrong with it."


class Bundle:
    """An opened bundle. Its manifest has been read and checked against its sum; the rest is checked when read."""

    def __init__(self, path: Path, meta: dict[str, bytes], packed: PackedBundle | None) -> None:
        manifest, findings = check_meta(meta)
        if manifest is None or findings:
            raise AssetError("\n".join(f"{path}: {finding}" for finding in findings), hint=_DAMAGED)
        self.path = path
        self.manifest: Manifest = manifest
        self.signed_by = signer(meta)
        self._packed = packed
        self._offsets: dict[str, int] = {}
        at = 0
        for entry in sorted(manifest.entries(), key=lambda entry: entry.path):
            self._offsets[entry.path] = at
            at += member_length(entry.size)
        self._entries = {entry.path: entry for entry in manifest.entries()}

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """The bundle at `path`; AssetError if it is not one, is cut short, or its manifest was edited."""
        if path.is_dir():
            return cls(path, read_meta(path), None)
        packed = PackedBundle(path)
        try:
            return cls(path, packed.meta, packed)
        except BaseException:
            packed.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the archive, if it is one."""
        if self._packed:
            self._packed.close()

    @property
    def is_archive(self) -> bool:
        """Whether it is a single file."""
        return self._packed is not None

    def entry(self, path: str) -> Entry:
        """What the manifest says about a path."""
        try:
            return self._entries[path]
        except KeyError:
            raise AssetError(f"{self.path} holds no {path}") from None

    def holds(self, path: str) -> bool:
        """True if the manifest lists this path."""
        return path in self._entries

    def local_path(self, path: str) -> Path | None:
        """Where the file is on disk, or None if it is inside an archive. It is not checked by this."""
        return None if self._packed else self.path / self.entry(path).path

    def open_file(self, path: str) -> BinaryIO:
        """A stream of the file at `path`; reading to its end raises AssetError if it is not what the manifest says."""
        entry = self.entry(path)
        raw: io.RawIOBase
        if self._packed is None:
            try:
                raw = (self.path / entry.path).open("rb", buffering=0)
            except OSError as error:
                raise AssetError(f"{self.path}: {path} cannot be read: {error.strerror}", hint=_DAMAGED) from error
        else:
            raw = _PackedFile(self._packed, entry, self._offsets[path])
        return cast("BinaryIO", io.BufferedReader(_Checked(raw, entry, str(self.path)), CHUNK))

    def extract(self, target: Path) -> None:
        """Unpacks the archive into a directory that is not there yet: all of it, checked, or nothing."""
        if self._packed is None:
            raise AssetError(f"{self.path} is a directory already")
        if target.exists():
            raise AssetError(f"{target} is there already", hint="Unpack into a directory that does not exist yet.")
        needed = stream_length(self._entries.values())
        staging = target.with_name(f".{target.name}.partial")
        lock = FileLock(target.with_name(f".{target.name}.lock"))
        if not lock.try_acquire():
            raise AssetError(f"another process is unpacking to {target}")
        try:
            with write_errors(target, needed=needed):
                remove_tree(staging)
                staging.mkdir()
                _check_room(staging, needed)
                self._extract(self._packed, staging)
                staging.rename(target)
        finally:
            remove_tree(staging)
            lock.release()

    def _extract(self, packed: PackedBundle, staging: Path) -> None:
        @contextlib.contextmanager
        def sink(entry: Entry) -> Iterator[BinaryIO]:
            place = staging / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as out:
                yield out

        for finding in scan_packed(packed, self.manifest, sink):
            raise AssetError(f"{self.path}: {finding}", hint=_DAMAGED)
        for name, data in packed.meta.items():
            (staging / name).write_bytes(data)

    def sign(self, key: PrivateKey) -> str:
        """Signs the manifest in place, replacing an older signature; gives the key's id. The rest stays as it is."""
        meta = dict(self._packed.meta) if self._packed else read_meta(self.path)
        signature = key.sign(meta[MANIFEST])
        meta[SIGNATURE] = signature.to_json()
        if self._packed is None:
            with replacing(self.path / SIGNATURE) as out:
                out.write(meta[SIGNATURE])
            return signature.key_id
        lengths = self._packed.frame_lengths
        head = meta_frame(meta)
        total = len(head) + len(index_frame(lengths, 0)) + sum(lengths)
        with self.path.open("rb") as source, replacing(self.path) as out:
            out.write(head)
            out.write(index_frame(lengths, total))
            source.seek(self._packed.data_start)
            shutil.copyfileobj(source, out, CHUNK)
        return signature.key_id


def _check_room(directory: Path, needed: int) -> None:
    free = os.statvfs(directory)
    available = free.f_bavail * free.f_frsize
    if available < needed:
        raise AssetError(
            f"no space left for {directory.parent}: {human_size(needed)} are needed, {human_size(available)} are free",
            hint="Free some space or choose another place.",
        )


class _Checked(io.RawIOBase):
    """Passes bytes on; at the end it has seen exactly what the manifest promises, or raises."""

    def __init__(self, source: io.RawIOBase, entry: Entry, where: str) -> None:
        self._source = source
        self._entry = entry
        self._where = where
        self._digest = hashlib.sha256()
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count = self._source.readinto(buffer) or 0
        if count:
            self._digest.update(memoryview(buffer)[:count])
            self._size += count
        over = not count or self._size >= self._entry.size
        if over and (self._size, self._digest.hexdigest()) != (self._entry.size, self._entry.sha256):
            raise AssetError(f"{self._where}: {self._entry.path} is damaged", hint=_DAMAGED)
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _PackedFile(io.RawIOBase):
    """One member of a packed bundle, found by the place the manifest gives it."""

    def __init__(self, packed: PackedBundle, entry: Entry, offset: int) -> None:
        self._stream = packed.reader()
        self._where = f"{packed.path}: {entry.path}"
        self._at = offset + BLOCK
        self._end = self._at + entry.size
        if self._read(offset, BLOCK) != tar_header(entry.path, entry.size):
            raise AssetError(f"{self._where} is not where it should be", hint=_DAMAGED)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        length = min(view.nbytes, self._end - self._at)
        data = self._read(self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read(self, offset: int, length: int) -> bytes:
        try:
            return self._stream.read(offset, length)
        except FrameDamaged as error:
            raise AssetError(f"{self._where} cannot be read", hint=_DAMAGED) from error
