"""Where a cluster's files and images come from: bundles, mirrors and upstream, asked in the user's order.

What one source lacks the next may have. What one has but damaged is an error: something is wrong and must be seen.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kubexm.assets import catalog
from kubexm.assets.bundle import Bundle
from kubexm.assets.cache import FileCache
from kubexm.assets.catalog import Install
from kubexm.assets.disk import hash_file, replacing
from kubexm.assets.layout import blob_path
from kubexm.assets.manifest import PackageEntry
from kubexm.assets.oci import ImageBlobs, StoredImage
from kubexm.assets.transfer import Damaged, NotThere, Unreachable
from kubexm.errors import AssetError

__all__ = ["BundleSource", "FoundFile", "FoundImage", "FoundPackage", "Source", "Sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that is now on this machine, checked."""

    name: str
    component: str
    version: str
    local: Path
    path: str
    """Upstream's path, host first."""
    size: int
    sha256: str
    roles: tuple[str, ...]
    licence: str
    origin: str
    install: Install | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """An image whose blobs are now in the cache, checked."""

    name: str
    component: str
    version: str
    reference: str
    image: StoredImage
    roles: tuple[str, ...]
    licence: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPackage:
    """An OS package that is now on this machine, checked."""

    target: str
    entry: PackageEntry
    requested: bool
    local: Path


class Source(Protocol):
    """One place assets can come from. NotThere and Unreachable mean: ask the next one."""

    label: str

    async def file(self, name: str, kubernetes: str, arch: str) -> FoundFile:
        """The file with this name for this Kubernetes version."""
        ...

    async def image(self, name: str, kubernetes: str, arch: str) -> FoundImage:
        """The image with this name for this Kubernetes version."""
        ...

    async def packages(self, arch: str) -> list[FoundPackage]:
        """The OS packages it has for this architecture."""
        ...


class Sources:
    """Several sources as one."""

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise AssetError("there is nowhere to take files from", hint="Name a bundle, a mirror or upstream.")
        self._sources = tuple(sources)

    async def file(self, name: str, kubernetes: str, arch: str) -> FoundFile:
        """The file from the first source that has it; AssetError says of each why it did not."""
        reasons: list[str] = []
        for source in self._sources:
            try:
                return await source.file(name, kubernetes, arch)
            except (NotThere, Unreachable) as error:
                reasons.append(f"{source.label}: {error.message}")
        raise _nowhere(f"the file {name}", kubernetes, arch, reasons)

    async def image(self, name: str, kubernetes: str, arch: str) -> FoundImage:
        """The image from the first source that has it; AssetError says of each why it did not."""
        reasons: list[str] = []
        for source in self._sources:
            try:
                return await source.image(name, kubernetes, arch)
            except (NotThere, Unreachable) as error:
                reasons.append(f"{source.label}: {error.message}")
        raise _nowhere(f"the image {name}", kubernetes, arch, reasons)

    async def packages(self, arch: str) -> list[FoundPackage]:
        """The OS packages of all sources; for each distribution those of the first that has any."""
        found: dict[str, list[FoundPackage]] = {}
        for source in self._sources:
            fresh: dict[str, list[FoundPackage]] = {}
            for package in await source.packages(arch):
                fresh.setdefault(package.target, []).append(package)
            found = fresh | found
        return [package for target in sorted(found) for package in found[target]]


def _nowhere(what: str, kubernetes: str, arch: str, reasons: list[str]) -> AssetError:
    lines = "".join(f"\n  {reason}" for reason in reasons)
    return AssetError(f"{what} for Kubernetes {kubernetes} on {arch} is not to be had:{lines}")


class BundleSource:
    """A bundle. Its manifest decides about versions; a directory is read in place, an archive through the cache."""

    def __init__(self, bundle: Bundle, cache: FileCache) -> None:
        self.label = f"bundle {bundle.path}"
        self._bundle = bundle
        self._cache = cache

    async def file(self, name: str, kubernetes: str, arch: str) -> FoundFile:
        """The file, in the bundle itself or unpacked into the cache."""
        self._check(kubernetes, arch)
        try:
            entry = self._bundle.manifest.file(name, kubernetes)
        except AssetError as error:
            raise NotThere(error.message, hint=error.hint) from None
        return FoundFile(
            name=name,
            component=entry.component,
            version=entry.version,
            local=await self._local(entry.path, entry.sha256),
            path=entry.upstream_path,
            size=entry.size,
            sha256=entry.sha256,
            roles=entry.roles,
            licence=entry.licence,
            origin=entry.origin,
            install=_install_of(name, kubernetes, arch),
        )

    async def image(self, name: str, kubernetes: str, arch: str) -> FoundImage:
        """The image, its blobs copied into the cache."""
        self._check(kubernetes, arch)
        try:
            entry = self._bundle.manifest.image(name, kubernetes)
        except AssetError as error:
            raise NotThere(error.message, hint=error.hint) from None
        with self._bundle.open_file(blob_path(entry.digest)) as stream:
            manifest = stream.read()
        source = ImageBlobs(
            manifest=manifest,
            open_blob=lambda digest: self._bundle.open_file(blob_path(digest)),
            where=f"{self.label}: {entry.reference}",
        )
        return FoundImage(
            name=name,
            component=entry.component,
            version=entry.version,
            reference=entry.reference,
            image=await asyncio.to_thread(source.store, self._cache.images),
            roles=entry.roles,
            licence=entry.licence,
            origin=entry.origin,
        )

    async def packages(self, arch: str) -> list[FoundPackage]:
        """All its OS packages, in the bundle itself or unpacked into the cache."""
        if self._bundle.manifest.arch != arch:
            return []
        return [
            FoundPackage(
                target=group.target,
                entry=package,
                requested=package.name in group.requested,
                local=await self._local(package.path, package.sha256),
            )
            for group in self._bundle.manifest.packages
            for package in group.packages
        ]

    async def _local(self, inside: str, sha256: str) -> Path:
        local = self._bundle.local_path(inside)
        if local is None:
            return await self._cache.obtain(sha256, lambda path: asyncio.to_thread(self._copy, inside, path))
        if (await asyncio.to_thread(hash_file, local))[1] != sha256:
            raise Damaged(f"{self.label}: {inside} is damaged", hint="See `kubexm bundle verify`.")
        return local

    def _check(self, kubernetes: str, arch: str) -> None:
        manifest = self._bundle.manifest
        if manifest.arch != arch:
            raise NotThere(f"the bundle is for {manifest.arch}")
        if kubernetes not in manifest.kubernetes:
            raise NotThere(f"the bundle is for Kubernetes {', '.join(manifest.kubernetes)}")

    def _copy(self, inside: str, target: Path) -> None:
        with self._bundle.open_file(inside) as stream, replacing(target) as out:
            shutil.copyfileobj(stream, out)


def _install_of(name: str, kubernetes: str, arch: str) -> Install | None:
    try:
        return catalog.release(kubernetes, arch).file(name).install
    except AssetError:
        return None
