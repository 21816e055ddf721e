"""Files written whole or not at all, hashed on the way, with errors a user can act on. Knows nothing of bundles."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kubexm.errors import AssetError

__all__ = ["CHUNK", "copy_hashed", "hash_file", "human_size", "place_file", "remove_tree", "replacing", "write_errors"]

CHUNK = 1024 * 1024


def human_size(size: int) -> str:
    """1536 is 1.5 KiB."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{int(value)} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


@contextlib.contextmanager
def write_errors(target: Path, *, needed: int = 0) -> Iterator[None]:
    """Turns the system's refusal to write into an AssetError that names the place and the way out."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            room = f" ({human_size(needed)} are needed in all)" if needed else ""
            raise AssetError(
                f"no space left while writing {target}{room}",
                hint="Free some space or choose another place; nothing half-written was kept.",
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise AssetError(f"{target} cannot be written: {error.strerror}") from error
        raise


def copy_hashed(source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
    """Copies everything that is left in `source`; says how much it was and its sha256."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        target.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def hash_file(path: Path) -> tuple[int, str]:
    """The size and the sha256 of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


@contextlib.contextmanager
def replacing(target: Path, *, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content becomes `target` when the block ends well, and vanishes when it does not.

    `durable` waits for the disk, so that the file outlives a power cut; what can be had again need not.
    """
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                yield stream
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def place_file(source: Path, target: Path, *, link: bool = False) -> tuple[int, str]:
    """Brings a file to its place, as a copy or (same file system) as a hard link; says its size and sha256."""
    if link:
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # another file system, or one without links: a copy does as well
            os.link(source, target)
            return hash_file(target)
    with source.open("rb") as stream, replacing(target, durable=False) as out:
        return copy_hashed(stream, out)


def remove_tree(path: Path) -> None:
    """The directory and all in it are gone; it need not have been there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
