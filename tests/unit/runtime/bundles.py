"""Whole bundles in small: everything the catalog lists for a cluster, with a few bytes each."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from kubexm.assets import BundleWriter, DockerArchive, catalog
from tests.unit.assets.samples import docker_archive, layer

KUBERNETES = "v1.34.4"


def content_of(name: str, arch: str = "amd64") -> bytes:
    """What the file of this name holds."""
    return f"{name} for {arch}\n".encode() * 20


def tar_of(members: dict[str, bytes]) -> bytes:
    """A .tar.gz whose files are programs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def whole_bundle(
    directory: Path,
    *,
    kubernetes: str = KUBERNETES,
    arch: str = "amd64",
    images: bool = True,
    without: Iterable[str] = (),
    packages: Iterable[str] = (),
    salt: bytes = b"",
) -> Path:
    """A bundle directory for every kind of cluster of this version; `salt` makes its files differ from another's."""
    release = catalog.release(kubernetes, arch)
    work = directory.parent / f"{directory.name}-inputs"
    work.mkdir(parents=True)
    with BundleWriter(directory, kubernetes=[kubernetes], arch=arch) as writer:
        for file in release.files:
            if file.name in set(without):
                continue
            data = content_of(file.name, arch) + salt
            if file.install is not None and file.install.unpack:
                above = "top/" * file.install.strip
                data = tar_of({f"{above}{member}": data for member in file.install.members or ("one", "two")})
            source = work / file.name
            source.write_bytes(data)
            writer.add_file(
                source,
                path=file.path,
                name=file.name,
                component=file.component,
                version=file.version,
                roles=file.roles,
                origin=file.url or file.rootfs,
                licence=file.licence,
            )
        for image in release.images if images else ():
            archive = docker_archive(
                work / f"{image.name}.tar",
                image.reference,
                [layer({"base": b"base"}), layer({image.name: b"x" * 10 * len(image.name)})],
                arch=arch,
            )
            writer.add_image(
                DockerArchive(path=archive),
                reference=image.reference,
                name=image.name,
                component=image.component,
                version=image.version,
                roles=image.roles,
                origin=image.reference,
                licence=image.licence,
            )
        for name in packages:
            deb = work / f"{name}_1.0_{arch}.deb"
            deb.write_bytes(b"!<arch>\n" + name.encode())
            writer.add_package(
                deb,
                target=f"debian-12-{arch}",
                name=name,
                version="1.0",
                roles=["controlPlane", "worker"],
                origin=name,
                licence="GPL-2.0-only",
                requested=True,
            )
        writer.finish()
    return directory
