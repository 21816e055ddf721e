"""Upstream and its mirrors as a source: files over HTTP against published or pinned sums, images from registries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kubexm.assets import catalog
from kubexm.assets.cache import FileCache
from kubexm.assets.catalog import FileAsset, ImageAsset, Release
from kubexm.assets.disk import hash_file
from kubexm.assets.download import Download, Downloader
from kubexm.assets.reference import ImageReference
from kubexm.assets.registry.access import RegistryAccess
from kubexm.assets.registry.pull import Puller
from kubexm.assets.rootfs import write_rootfs
from kubexm.assets.sources import FoundFile, FoundImage, FoundPackage
from kubexm.assets.sums import MAX_SUMS, PinnedSums, find_sum
from kubexm.assets.transfer import Damaged, NotThere, Progress, Retry, check_status, following, shown_url
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpSource"]

_T = TypeVar("_T", FileAsset, ImageAsset)


class HttpSource:
    """Upstream itself, or a mirror: a server with upstream's layout below some URL."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        cache: FileCache,
        *,
        mirror: str = "",
        access: RegistryAccess | None = None,
        pinned: PinnedSums | None = None,
        versions: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        progress: Progress | None = None,
    ) -> None:
        if mirror and not mirror.startswith(("http://", "https://")):
            raise AssetError(
                f"the mirror {mirror!r} is not a URL", hint="It looks like https://mirror.example.com/k8s."
            )
        self.label = f"mirror {shown_url(mirror)}" if mirror else "upstream"
        self._mirror = mirror.rstrip("/")
        self._cache = cache
        self._pinned = pinned
        self._versions = dict(versions or {})
        self._retry = retry or Retry()
        self._open = following(client)
        self._downloader = Downloader(self._open, retry=self._retry, progress=progress)
        self._puller = Puller(client, access or RegistryAccess(), retry=self._retry, progress=progress)

    async def file(self, name: str, kubernetes: str, arch: str) -> FoundFile:
        """The file the catalog names, checked against its published or pinned sum."""
        asset = _asset(self._release(kubernetes, arch).files, name)
        if asset.rootfs:
            return await self._rootfs(asset)
        sha256 = await self._sum(asset)

        async def fetch(path: Path) -> None:
            await self._from_first(asset.path, lambda url: self._download(asset, url, sha256, path))

        local = await self._cache.obtain(sha256, fetch)
        return _found(asset, local, sha256, origin=asset.url)

    async def image(self, name: str, kubernetes: str, arch: str) -> FoundImage:
        """The image the catalog names, pulled from its registry or that one's mirrors."""
        asset = _asset(self._release(kubernetes, arch).images, name)
        image = await self._puller.pull(ImageReference.parse(asset.reference), arch, self._cache.images)
        return FoundImage(
            name=name,
            component=asset.component,
            version=asset.version,
            reference=asset.reference,
            image=image,
            roles=asset.roles,
            licence=asset.licence,
            origin=f"{asset.reference}@{image.manifest.digest}",
        )

    async def packages(self, arch: str) -> list[FoundPackage]:
        """None: each distribution has its own way to give out packages, and it is not ours."""
        return []

    def _release(self, kubernetes: str, arch: str) -> Release:
        return catalog.release(kubernetes, arch, versions=self._versions)

    async def _download(self, asset: FileAsset, url: str, sha256: str, path: Path) -> None:
        await self._downloader.fetch(Download(url=url, sha256=sha256, name=asset.name), path)

    async def _sum(self, asset: FileAsset) -> str:
        if self._pinned is not None:
            return self._pinned.find(asset.path)
        if asset.sha256:
            return asset.sha256
        if not asset.sums_path:
            raise AssetError(
                f"the sha256 of {asset.name} {asset.version} is not known: upstream publishes none, "
                "and the catalog lists none",
                hint="Use the version that goes with Kubernetes, or pin the sum with a list of your own.",
            )
        text = ""

        async def read(url: str) -> None:
            nonlocal text
            text = await self._text(url)

        await self._from_first(asset.sums_path, read)
        return find_sum(text, asset.path.rpartition("/")[2], where=f"{self.label}: {asset.sums_path}")

    async def _text(self, url: str) -> str:
        async def work() -> str:
            async with self._open(url, {}) as response:
                check_status(response, url, good=frozenset({200}))
                data = b""
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_SUMS:
                        raise Damaged(f"{shown_url(url)} is too long for a list of sums")
                return data.decode("utf-8", "replace")

        return await self._retry(work, f"{shown_url(url)} could not be read")

    async def _from_first(self, path: str, use: Callable[[str], Awaitable[None]]) -> None:
        """Tries the places a path may be at: on a mirror below the upstream host's name, or without it."""
        if not self._mirror:
            await use(f"https://{path}")
            return
        try:
            await use(f"{self._mirror}/{path}")
        except NotThere as first:
            try:
                await use(f"{self._mirror}/{path.partition('/')[2]}")
            except NotThere:
                raise first from None

    async def _rootfs(self, asset: FileAsset) -> FoundFile:
        """The root file system of an image, made here; the same image gives the same file."""
        reference = ImageReference.parse(asset.rootfs)
        image = await self._puller.pull(reference, asset.arch, self._cache.images)
        local = self._cache.directory / "rootfs" / f"{image.manifest.digest.removeprefix('sha256:')}.tar.gz"
        if not local.is_file():
            blobs = self._cache.images
            local.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(
                write_rootfs, image.manifest.layers, lambda digest: blobs.path(digest).open("rb"), local
            )
        _, sha256 = await asyncio.to_thread(hash_file, local)
        return _found(asset, local, sha256, origin=f"{reference}@{image.manifest.digest}")


def _asset(assets: tuple[_T, ...], name: str) -> _T:
    for asset in assets:
        if asset.name == name:
            return asset
    raise NotThere(f"the catalog has no {name!r}")


def _found(asset: FileAsset, local: Path, sha256: str, *, origin: str) -> FoundFile:
    return FoundFile(
        name=asset.name,
        component=asset.component,
        version=asset.version,
        local=local,
        path=asset.path,
        size=local.stat().st_size,
        sha256=sha256,
        roles=asset.roles,
        licence=asset.licence,
        origin=origin,
        install=asset.install,
    )
