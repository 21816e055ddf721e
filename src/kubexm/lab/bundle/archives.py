"""Archives and image layers as data: trees of files written the same way each time, whoever writes them, and when.

Owner is root, time is the epoch, order is by name. Knows nothing of what is in the trees.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

__all__ = ["NET_BIND_SERVICE", "Directory", "File", "Link", "Member", "Tree", "write_tar", "write_tar_gz"]

NET_BIND_SERVICE = b"\x01\x00\x00\x02\x00\x04\x00\x00" + b"\x00" * 12
"""The file capability cap_net_bind_service=+ep, as the kernel stores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file: content given here or by where it is now."""

    source: Path | bytes
    mode: int = 0o755
    capability: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory that is there even if nothing is in it."""

    mode: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link."""

    target: str


Member = File | Directory | Link
Tree = Mapping[str, Member]
"""What is at each path; paths are relative. Directories above a path need not be named."""


def write_tar(tree: Tree, out: BinaryIO) -> None:
    """Writes the tree, each directory before what is in it."""
    full: dict[str, Member] = {}
    for path, member in tree.items():
        for parent in PurePosixPath(path).parents:
            if parent != PurePosixPath("."):
                full.setdefault(str(parent), Directory())
        full[path] = member
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(full, key=lambda name: name.split("/")):
            _add(archive, path, full[path])


def write_tar_gz(tree: Tree, target: Path) -> None:
    """Writes the tree as a .tar.gz with no name and no time in its header."""
    with target.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as out:
        write_tar(tree, out)  # type: ignore[arg-type]  # GzipFile is a binary stream in all but name


def _add(archive: tarfile.TarFile, path: str, member: Member) -> None:
    info = tarfile.TarInfo(path)
    info.uname = info.gname = "root"
    match member:
        case Directory(mode=mode):
            info.type, info.mode = tarfile.DIRTYPE, mode
            archive.addfile(info)
        case Link(target=target):
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(info)
        case File(source=source, mode=mode, capability=capability):
            info.mode = mode
            if capability:
                info.pax_headers = {"SCHILY.xattr.security.capability": capability.decode("ascii")}
            if isinstance(source, bytes):
                info.size = len(source)
                archive.addfile(info, io.BytesIO(source))
                return
            info.size = source.stat().st_size
            with source.open("rb") as stream:
                archive.addfile(info, stream)
