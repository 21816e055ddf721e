"""What the catalog tells: the files and images of one Kubernetes release, and where each comes from and goes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from kubexm.errors import AssetError

__all__ = ["FileAsset", "ImageAsset", "Install", "Release", "WantedPackage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """Where a file goes on a host: to one place, or unpacked into a directory."""

    to: PurePosixPath
    mode: int = 0o755
    unpack: bool = False
    strip: int = 0
    """How many leading directories of the archive's names are dropped."""
    members: tuple[str, ...] = ()
    """What to take out of the archive, after dropping; empty means all of it."""
    program: str = ""
    """The program it is a version of: it is staged by version, and links lead to the active one from `to`. Empty: it
    is put there itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAsset:
    """A file of a release, as upstream publishes it."""

    name: str
    component: str
    version: str
    arch: str
    path: str
    """Host and path of its upstream address: what it is called in a bundle and on a mirror."""
    url: str
    """Empty for what upstream does not publish as a file."""
    sums_path: str
    """Where its sha256 is published, host and path; empty if nowhere."""
    rootfs: str
    """The image whose root file system this is, for what has no address of its own."""
    licence: str
    roles: tuple[str, ...]
    features: tuple[str, ...]
    install: Install | None
    """None for what no host keeps: objects for the API."""
    kind: str = "file"
    """file; manifest: objects as YAML; chart: a Helm chart."""
    sha256: str = ""
    """As the catalog knows it, for what upstream publishes no sums of."""
    images: tuple[str, ...] = ()
    """The catalog's images that the objects of a manifest use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAsset:
    """An image of a release, under upstream's name."""

    name: str
    component: str
    version: str
    arch: str
    reference: str
    licence: str
    roles: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPackage:
    """An OS package hosts of some roles need."""

    name: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Everything that belongs to one Kubernetes version on one architecture."""

    kubernetes: str
    arch: str
    versions: dict[str, str]
    files: tuple[FileAsset, ...]
    images: tuple[ImageAsset, ...]

    def file(self, name: str) -> FileAsset:
        """The file with this name."""
        return _named(self.files, name, "file", self.kubernetes)

    def objects(self, name: str) -> FileAsset:
        """The manifest or chart with this name."""
        return _named(tuple(file for file in self.files if file.kind != "file"), name, "manifest", self.kubernetes)

    def image(self, name: str) -> ImageAsset:
        """The image with this name."""
        return _named(self.images, name, "image", self.kubernetes)

    def select(self, *, roles: Iterable[str] = (), features: Iterable[str] | None = None) -> Release:
        """The part that hosts with these roles need in a cluster with these features; no roles means all, None too."""
        wanted_roles = set(roles)
        wanted_features = None if features is None else set(features)

        def wanted(asset: FileAsset | ImageAsset) -> bool:
            by_role = not wanted_roles or bool(wanted_roles & set(asset.roles))
            by_feature = wanted_features is None or not asset.features or bool(wanted_features & set(asset.features))
            return by_role and by_feature

        return Release(
            kubernetes=self.kubernetes,
            arch=self.arch,
            versions=self.versions,
            files=tuple(file for file in self.files if wanted(file)),
            images=tuple(image for image in self.images if wanted(image)),
        )


_Named = TypeVar("_Named", FileAsset, ImageAsset)


def _named(assets: Iterable[_Named], name: str, kind: str, kubernetes: str) -> _Named:
    for asset in assets:
        if asset.name == name:
            return asset
    raise AssetError(f"Kubernetes {kubernetes} has no {kind} {name!r} in the catalog")
