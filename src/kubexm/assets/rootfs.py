"""The root file system of an image as one .tar.gz, for programs that upstream publishes only as an image.

Layers are laid over each other as a container runtime would. The same image gives the same bytes.
"""

from __future__ import annotations

import gzip
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, BinaryIO, cast

from kubexm.assets.disk import replacing
from kubexm.assets.oci import Descriptor
from kubexm.errors import AssetError

__all__ = ["write_rootfs"]

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MOST_MEMBERS = 200_000


def write_rootfs(layers: Iterable[Descriptor], open_blob: Callable[[str], BinaryIO], target: Path) -> None:
    """Writes what the layers add up to: files, directories and links; devices and pipes are left out."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as work:
        tree = _Tree()
        for number, layer in enumerate(layers):
            plain = Path(work, f"layer{number}.tar")
            with open_blob(layer.digest) as source, plain.open("wb") as unpacked:
                _decompress(source, unpacked, layer.media_type)
            tree.lay(plain)
        with replacing(target) as out, gzip.GzipFile("", "wb", 6, cast("IO[bytes]", out), mtime=0) as packed:
            tree.write(cast("IO[bytes]", packed))


def _decompress(source: BinaryIO, out: BinaryIO, media_type: str) -> None:
    if media_type.endswith(("+gzip", ".gzip")):
        shutil.copyfileobj(gzip.GzipFile(fileobj=source), out)
    elif media_type.endswith("+zstd"):
        import zstandard

        zstandard.ZstdDecompressor().copy_stream(source, out)
    else:
        shutil.copyfileobj(source, out)


class _Tree:
    """Names, each with the layer and header that has it now."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[Path, tarfile.TarInfo]] = {}

    def lay(self, layer: Path) -> None:
        """Lays one more layer over what is there."""
        with tarfile.open(layer) as archive:
            added: dict[str, tarfile.TarInfo] = {}
            for member in archive:
                name = _safe(member.name, layer)
                directory, base = posixpath.split(name)
                if base == _OPAQUE:
                    self._remove(directory, keep=True)
                elif base.startswith(_WHITEOUT):
                    self._remove(posixpath.join(directory, base.removeprefix(_WHITEOUT)), keep=False)
                elif name and (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                    added[name] = member
            for name, member in added.items():
                if not member.isdir() and name in self._members and self._members[name][1].isdir():
                    self._remove(name, keep=False)
                source = member
                if member.islnk():
                    source = self._target(added, _safe(member.linkname, layer), name)
                self._members[name] = (layer, source)
        if len(self._members) > _MOST_MEMBERS:
            raise AssetError("the image has more files than any root file system kubexm would install")

    def write(self, out: IO[bytes]) -> None:
        """Writes everything in the order of names."""
        opened: dict[Path, tarfile.TarFile] = {}
        try:
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for name, (layer, member) in sorted(self._members.items()):
                    if layer not in opened:
                        opened[layer] = tarfile.open(layer)  # noqa: SIM115 - closed below, all of them
                    info = tarfile.TarInfo(name)
                    info.type, info.linkname, info.mode = member.type, member.linkname, member.mode & 0o777
                    info.uid, info.gid = member.uid, member.gid
                    info.size = member.size if member.isreg() else 0
                    archive.addfile(info, opened[layer].extractfile(member) if member.isreg() else None)
        finally:
            for each in opened.values():
                each.close()

    def _target(self, added: dict[str, tarfile.TarInfo], target: str, name: str) -> tarfile.TarInfo:
        found = added.get(target)
        if found is None or not found.isreg():
            raise AssetError(f"the image's {name} is a hard link to {target}, which its layer does not hold")
        return found

    def _remove(self, name: str, *, keep: bool) -> None:
        prefix = f"{name}/" if name else ""
        for path in [path for path in self._members if path.startswith(prefix) or (path == name and not keep)]:
            del self._members[path]


def _safe(name: str, layer: Path) -> str:
    clean = posixpath.normpath(name.lstrip("/")) if name.strip("/") else "."
    if clean.startswith("../") or clean == "..":
        raise AssetError(f"a layer of the image names {name!r}, which leaves the image", hint=f"It is in {layer.name}.")
    return "" if clean == "." else clean
