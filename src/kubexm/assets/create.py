"""Makes a bundle out of whatever sources the user has: all the catalog lists, fetched, checked, and written whole."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kubexm.assets import catalog
from kubexm.assets.archive import pack
from kubexm.assets.cache import FileCache
from kubexm.assets.disk import write_errors
from kubexm.assets.manifest import Manifest
from kubexm.assets.names import check_kubernetes_version
from kubexm.assets.oci import ImageBlobs
from kubexm.assets.os_packages import add_package_directory
from kubexm.assets.sources import FoundFile, FoundImage, FoundPackage, Sources
from kubexm.assets.writer import BundleWriter
from kubexm.errors import AssetError

__all__ = ["BundleRequest", "PackageDirectory", "create_bundle"]

_AT_ONCE = 4
_T = TypeVar("_T")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDirectory:
    """OS packages somebody gathered for DISTRO-ARCH."""

    target: str
    directory: Path
    requested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What to put into a bundle, and where."""

    kubernetes: tuple[str, ...]
    arch: str
    out: Path
    """A directory, or one file if its name ends in .tar.zst."""
    features: tuple[str, ...] | None = None
    """What the clusters will use; None for everything."""
    packages: tuple[PackageDirectory, ...] = field(default=())
    images: bool = True
    """False: files alone, for clusters whose nodes get images from a registry."""
    replace: bool = False

    @property
    def packed(self) -> bool:
        """Whether it is to be one file."""
        return self.out.name.endswith(".tar.zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """Everything that was fetched; files and images with the Kubernetes version each is for."""

    files: list[tuple[str, FoundFile]]
    images: list[tuple[str, FoundImage]]
    packages: list[FoundPackage]


async def create_bundle(request: BundleRequest, sources: Sources, cache: FileCache, *, say: Say) -> Manifest:
    """Fetches all that is asked for and writes the bundle, whole or not at all; `say` hears of each thing fetched."""
    _check(request)
    files: list[tuple[str, FoundFile]] = []
    images: list[tuple[str, FoundImage]] = []
    for version in request.kubernetes:
        release = catalog.release(version, request.arch).select(features=request.features)
        files += [
            (version, found)
            for found in await _all(
                (sources.file(asset.name, version, request.arch) for asset in release.files),
                lambda found: say(f"{found.name} {found.version}"),
            )
        ]
        images += [
            (version, found)
            for found in await _all(
                (sources.image(asset.name, version, request.arch) for asset in release.images if request.images),
                lambda found: say(f"{found.reference}"),
            )
        ]
    content = _Content(files=files, images=images, packages=await sources.packages(request.arch))
    return await asyncio.to_thread(_write, request, content, cache, say)


def _check(request: BundleRequest) -> None:
    for version in request.kubernetes:
        check_kubernetes_version(version)
    if strange := set(request.features or ()) - set(catalog.features()):
        raise AssetError(
            f"unknown features: {', '.join(sorted(strange))}", hint=f"There are {', '.join(catalog.features())}."
        )
    if request.packed and request.out.exists() and not request.replace:
        raise AssetError(f"{request.out} is there already", hint="Choose another name, or say --replace.")


async def _all(works: Iterable[Coroutine[Any, Any, _T]], done: Callable[[_T], None]) -> list[_T]:
    """All the results in order, a few at a time; the first error ends the others."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(work: Coroutine[Any, Any, _T]) -> _T:
        async with gate:
            found = await work
        done(found)
        return found

    pending = list(works)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(work)) for work in pending]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    finally:
        for work in pending:
            work.close()  # those the first error left unstarted
    return [task.result() for task in tasks]


def _write(request: BundleRequest, content: _Content, cache: FileCache, say: Say) -> Manifest:
    if not request.packed:
        return _write_directory(request.out, request, content, cache, link=False)
    with write_errors(request.out):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=request.out.parent, prefix=f".{request.out.name}.") as work:
            directory = Path(work, "bundle")
            manifest = _write_directory(directory, request, content, cache, link=True)
            say(f"packing {request.out}")
            pack(directory, request.out)
    return manifest


def _write_directory(
    directory: Path,
    request: BundleRequest,
    content: _Content,
    cache: FileCache,
    *,
    link: bool,
) -> Manifest:
    several = len(request.kubernetes) > 1
    with BundleWriter(
        directory, kubernetes=request.kubernetes, arch=request.arch, replace_existing=request.replace
    ) as writer:
        for version, file in content.files:
            writer.add_file(
                file.local,
                path=file.path,
                name=file.name,
                component=file.component,
                version=file.version,
                roles=file.roles,
                origin=file.origin,
                licence=file.licence,
                kubernetes=[version] if several else [],
                sha256=file.sha256,
                link=link,
            )
        for version, image in content.images:
            writer.add_image(
                ImageBlobs(
                    manifest=image.image.manifest.data,
                    open_blob=lambda digest: cache.images.path(digest).open("rb"),
                    where=image.reference,
                ),
                reference=image.reference,
                name=image.name,
                component=image.component,
                version=image.version,
                roles=image.roles,
                origin=image.origin,
                licence=image.licence,
                kubernetes=[version] if several else [],
            )
        named = {group.target for group in request.packages}
        for package in content.packages:
            if package.target not in named:
                writer.add_package(
                    package.local,
                    target=package.target,
                    name=package.entry.name,
                    version=package.entry.version,
                    roles=package.entry.roles,
                    origin=package.entry.origin,
                    licence=package.entry.licence,
                    requested=package.requested,
                    file_name=package.entry.path.rpartition("/")[2],
                    sha256=package.entry.sha256,
                    link=link,
                )
        for group in request.packages:
            add_package_directory(writer, group.directory, target=group.target, requested=group.requested)
        return writer.finish()
