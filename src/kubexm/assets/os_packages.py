"""What an OS package file says about itself: Debian's and RPM's, read without their tools. Installs nothing."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kubexm.assets.catalog import packages as catalog_packages
from kubexm.assets.names import check_target, sorted_roles
from kubexm.assets.writer import BundleWriter
from kubexm.errors import AssetError

__all__ = ["PackageInfo", "add_package_directory", "read_package"]

_UNKNOWN_LICENCE = "LicenseRef-Debian-copyright"
_MAX_CONTROL = 16 * 1024 * 1024
_RPM_TAGS = {1000: "name", 1001: "version", 1002: "release", 1003: "epoch", 1014: "licence", 1022: "arch"}
_ARCHES = {"x86_64": "amd64", "aarch64": "arm64", "noarch": "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """A package's name, version, architecture (Go's name, or `all`) and licence."""

    name: str
    version: str
    arch: str
    licence: str
    manager: str
    """`apt` or `dnf`: whose names it goes by."""


def read_package(path: Path) -> PackageInfo:
    """What the .deb or .rpm file says; AssetError if it is neither or is damaged."""
    try:
        with path.open("rb") as stream:
            start = stream.read(8)
            stream.seek(0)
            if start == b"!<arch>\n":
                return _deb(stream.read())
            if start[:4] == b"\xed\xab\xee\xdb":
                return _rpm(stream.read(_MAX_CONTROL))
    except (OSError, ValueError, KeyError, IndexError, EOFError, tarfile.TarError, struct.error) as error:
        raise AssetError(f"the package {path} cannot be read: it is damaged ({error})") from error
    raise AssetError(f"{path} is neither a Debian nor an RPM package")


def add_package_directory(
    writer: BundleWriter, directory: Path, *, target: str, requested: Iterable[str] = (), origin: str = ""
) -> int:
    """Adds every package file in a directory for DISTRO-ARCH; gives how many there were.

    Requested are the packages named, or else those the catalog asks for; each of them must be there.
    """
    arch = check_target(target).rpartition("-")[2]
    found = sorted(path for path in directory.glob("*") if path.suffix in {".deb", ".rpm"})
    if not found:
        raise AssetError(f"{directory} holds no .deb or .rpm files", hint="Put the packages for the hosts there.")
    infos = {path: read_package(path) for path in found}
    wanted = set(requested)
    roles = {"controlPlane", "worker"}
    for package in catalog_packages(next(iter(infos.values())).manager):
        roles |= set(package.roles)
        if not requested:
            wanted.add(package.name)
    if missing := wanted - {info.name for info in infos.values()}:
        raise AssetError(
            f"{directory} lacks {', '.join(sorted(missing))}",
            hint="Fetch them with all they depend on, for a host that has nothing installed yet.",
        )
    for path, info in infos.items():
        if info.arch not in {arch, "all"}:
            raise AssetError(f"the package {path} is for {info.arch}, not for {arch}")
        writer.add_package(
            path,
            target=target,
            name=info.name,
            version=info.version,
            roles=sorted_roles(roles),
            origin=origin or f"{target} package {info.name}",
            licence=info.licence,
            requested=info.name in wanted,
        )
    return len(infos)


def _deb(data: bytes) -> PackageInfo:
    control = next(((name, content) for name, content in _ar_members(data) if name.startswith("control.tar")), None)
    if control is None:
        raise ValueError("no control data")
    name, content = control
    if name.endswith(".zst"):
        import zstandard

        content = zstandard.ZstdDecompressor().stream_reader(content).read(_MAX_CONTROL)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        stream = next(
            (archive.extractfile(each) for each in archive if each.name.removeprefix("./") == "control"), None
        )
        if stream is None:
            raise ValueError("no control file")
        text = stream.read(_MAX_CONTROL).decode()
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and line[:1] not in {" ", "\t"})
    return PackageInfo(
        name=fields["Package"],
        version=fields["Version"],
        arch=fields["Architecture"],
        licence=_UNKNOWN_LICENCE,
        manager="apt",
    )


def _ar_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 8
    while at + 60 <= len(data):
        name = data[at : at + 16].decode().strip().rstrip("/")
        size = int(data[at + 48 : at + 58])
        if data[at + 58 : at + 60] != b"`\n" or at + 60 + size > len(data):
            raise ValueError("its archive is not whole")
        yield name, data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def _rpm(data: bytes) -> PackageInfo:
    signature = 96
    _, signature_length = _rpm_header(data, signature)
    tags, _ = _rpm_header(data, signature + signature_length + -signature_length % 8)
    epoch = f"{tags['epoch']}:" if tags.get("epoch") else ""
    return PackageInfo(
        name=tags["name"],
        version=f"{epoch}{tags['version']}-{tags['release']}",
        arch=_ARCHES.get(tags["arch"], tags["arch"]),
        licence=tags.get("licence") or "LicenseRef-unknown",
        manager="dnf",
    )


def _rpm_header(data: bytes, at: int) -> tuple[dict[str, str], int]:
    if data[at : at + 3] != b"\x8e\xad\xe8":
        raise ValueError("no RPM header where one belongs")
    count, length = struct.unpack(">II", data[at + 8 : at + 16])
    store = at + 16 + 16 * count
    if store + length > len(data):
        raise ValueError("its header is not whole")
    tags: dict[str, str] = {}
    for number in range(count):
        tag, kind, offset, _ = struct.unpack(">IIII", data[at + 16 + 16 * number : at + 32 + 16 * number])
        if tag in _RPM_TAGS:
            tags[_RPM_TAGS[tag]] = _rpm_value(data, store + offset, kind)
    return tags, 16 + 16 * count + length


def _rpm_value(data: bytes, at: int, kind: int) -> str:
    if kind == 4:
        return str(struct.unpack(">I", data[at : at + 4])[0])
    return data[at : data.index(b"\x00", at)].decode()
