"""Which part of a bundle one host needs, by its roles and what the cluster uses. Knows nothing of how it gets there.

Everything comes with its sha256 or digest, so that whoever pushes it can see what the host has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kubexm.assets import catalog
from kubexm.assets.catalog import FileAsset, ImageAsset, Install
from kubexm.assets.manifest import Asset, FileEntry, ImageEntry, Manifest, PackageEntry
from kubexm.assets.names import check_roles, kubernetes_minor
from kubexm.errors import AssetError

__all__ = ["SelectedFile", "Selection", "assets_for"]

_A = TypeVar("_A", bound=Asset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedFile:
    """A file a host needs and where it goes, if the catalog knows."""

    entry: FileEntry
    install: Install | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one host needs."""

    files: tuple[SelectedFile, ...]
    images: tuple[ImageEntry, ...]
    """The biggest first, since importing them is what takes longest."""
    packages: tuple[PackageEntry, ...]


def assets_for(
    manifest: Manifest,
    *,
    roles: Iterable[str],
    arch: str,
    kubernetes: str = "",
    features: Iterable[str] | None = None,
    target: str = "",
) -> Selection:
    """What a host with these roles needs from the bundle.

    `features` (see the catalog) leaves out what the cluster does not use; `target` is DISTRO-ARCH for OS packages,
    which are left out without it. AssetError if the bundle is for another architecture or Kubernetes version.
    """
    wanted_roles = set(check_roles(roles))
    version = _version(manifest, kubernetes)
    if arch != manifest.arch:
        raise AssetError(
            f"the bundle is for {manifest.arch}, the host is {arch}",
            hint=f"Name a bundle for {arch} among the asset sources as well.",
        )
    uses = None if features is None else set(features)
    files, images = _known(version, arch)
    file_features = {name: asset.features for name, asset in (images | files).items()}
    image_features = {name: asset.features for name, asset in (files | images).items()}
    blobs = {blob.digest: blob.size for blob in manifest.blobs}
    chosen = _chosen(manifest.images, wanted_roles, version, uses, image_features)
    return Selection(
        files=tuple(
            SelectedFile(entry=entry, install=files[entry.name].install if entry.name in files else None)
            for entry in _chosen(manifest.files, wanted_roles, version, uses, file_features)
        ),
        images=tuple(sorted(chosen, key=lambda image: (-sum(blobs[digest] for digest in image.blobs), image.name))),
        packages=_packages(manifest, target, wanted_roles),
    )


def _version(manifest: Manifest, kubernetes: str) -> str:
    if not kubernetes and len(manifest.kubernetes) == 1:
        return manifest.kubernetes[0]
    if kubernetes in manifest.kubernetes:
        return kubernetes
    held = ", ".join(manifest.kubernetes)
    wanted = f"not for {kubernetes}" if kubernetes else "so say which one is meant"
    raise AssetError(f"the bundle is for Kubernetes {held}, {wanted}", hint="Choose a version the bundle is for.")


def _known(version: str, arch: str) -> tuple[dict[str, FileAsset], dict[str, ImageAsset]]:
    """What the catalog knows about files and images by name; a bundle may hold others, and other minors."""
    minor = kubernetes_minor(version)
    known = version if minor in catalog.minors() else catalog.newest(catalog.minors()[-1])
    release = catalog.release(known, arch)
    return {file.name: file for file in release.files}, {image.name: image for image in release.images}


def _chosen(
    entries: tuple[_A, ...],
    roles: set[str],
    version: str,
    uses: set[str] | None,
    known: Mapping[str, tuple[str, ...]],
) -> list[_A]:
    chosen: list[_A] = []
    for entry in entries:
        features = known.get(entry.name, ())
        used = uses is None or not features or bool(uses & set(features))
        if used and roles & set(entry.roles) and entry.serves(version):
            chosen.append(entry)
    return chosen


def _packages(manifest: Manifest, target: str, roles: set[str]) -> tuple[PackageEntry, ...]:
    if not target:
        return ()
    for group in manifest.packages:
        if group.target == target:
            return tuple(package for package in group.packages if roles & set(package.roles))
    held = ", ".join(group.target for group in manifest.packages) or "none at all"
    raise AssetError(f"the bundle has no OS packages for {target}", hint=f"It has packages for {held}.")
