"""What a bundle says it holds: the model of manifest.json and its one canonical form. Knows no file system.

Equal manifests are equal bytes, so a signature over them, and two builds of the same inputs, can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kubexm.assets.layout import (
    FILES,
    INDEX,
    OCI_LAYOUT,
    PACKAGES,
    blob_path,
    check_arch,
    check_digest,
    check_path,
    check_sha256,
)
from kubexm.assets.names import check_kubernetes_version, check_target, check_text, sorted_roles, version_key
from kubexm.errors import AssetError

__all__ = [
    "FORMAT_VERSION",
    "Asset",
    "Blob",
    "Entry",
    "FileEntry",
    "ImageEntry",
    "LayoutFile",
    "Manifest",
    "PackageEntry",
    "PackageSet",
]

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of the bundle as bytes: where it is, how long, and its sha256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """What files and images have in common: what it is, who needs it, where it came from, under which licence."""

    name: str
    """What steps ask for: `kubeadm`, `etcd`, `kube-apiserver`."""
    component: str
    """What it belongs to: `kubernetes`, `etcd`, `containerd`."""
    version: str
    roles: tuple[str, ...]
    origin: str
    """A URL, an image reference with digest, or a module and version."""
    licence: str
    """An SPDX expression."""
    kubernetes: tuple[str, ...] = ()
    """The Kubernetes versions it is for; empty means every version in the bundle."""

    def __post_init__(self) -> None:
        for field in ("name", "component", "version", "origin", "licence"):
            check_text(getattr(self, field), field)
        object.__setattr__(self, "roles", sorted_roles(self.roles))
        for version in self.kubernetes:
            check_kubernetes_version(version)
        object.__setattr__(self, "kubernetes", tuple(sorted(set(self.kubernetes), key=version_key)))

    def serves(self, kubernetes: str) -> bool:
        """Whether it is part of this Kubernetes version."""
        return not self.kubernetes or kubernetes in self.kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry(Asset):
    """A file under files/, at upstream's own path: files/HOST/PATH."""

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        super(FileEntry, self).__post_init__()
        _check_entry(self.path, self.size, self.sha256, under=f"{FILES}/")

    @property
    def upstream_path(self) -> str:
        """The path upstream uses, host first: dl.k8s.io/v1.34.4/bin/linux/amd64/kubeadm."""
        return self.path.removeprefix(f"{FILES}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEntry(Asset):
    """An image in the OCI layout under images/, for the bundle's one platform."""

    reference: str
    digest: str
    blobs: tuple[str, ...]
    """Digests of its manifest, its config and its layers, in this order; a blob may serve several images."""

    def __post_init__(self) -> None:
        super(ImageEntry, self).__post_init__()
        check_text(self.reference, "reference")
        check_digest(self.digest)
        for digest in self.blobs:
            check_digest(digest)
        if len(self.blobs) < 2 or self.blobs[0] != self.digest:
            raise AssetError("an image's blobs are its manifest, its config and its layers, in this order")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob of the OCI layout."""

    digest: str
    size: int

    def __post_init__(self) -> None:
        check_digest(self.digest)
        _check_size(self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFile:
    """A file the OCI layout itself consists of: its index and its version marker."""

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        _check_entry(self.path, self.size, self.sha256, under="images/")
        if self.path not in {INDEX, OCI_LAYOUT}:
            raise AssetError(f"{self.path!r} is no part of an OCI layout")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageEntry:
    """One OS package, wanted itself or because another needs it."""

    name: str
    version: str
    path: str
    size: int
    sha256: str
    roles: tuple[str, ...]
    origin: str
    licence: str

    def __post_init__(self) -> None:
        for field in ("name", "version", "origin", "licence"):
            check_text(getattr(self, field), field)
        object.__setattr__(self, "roles", sorted_roles(self.roles))
        _check_entry(self.path, self.size, self.sha256, under=f"{PACKAGES}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSet:
    """The OS packages for one distribution and architecture, with everything they depend on."""

    target: str
    """DISTRO-ARCH, such as debian-12-amd64: ID and VERSION_ID of os-release, then the architecture."""
    requested: tuple[str, ...]
    """The packages that were asked for; the others are there because these need them."""
    packages: tuple[PackageEntry, ...]

    def __post_init__(self) -> None:
        check_target(self.target)
        object.__setattr__(self, "requested", tuple(sorted(set(self.requested))))
        object.__setattr__(self, "packages", tuple(sorted(self.packages, key=lambda package: package.path)))
        for package in self.packages:
            if not package.path.startswith(f"{PACKAGES}/{self.target}/"):
                raise AssetError(f"the package {package.path} is not under {PACKAGES}/{self.target}/")
        if missing := set(self.requested) - {package.name for package in self.packages}:
            raise AssetError(f"{PACKAGES}/{self.target} lacks what was requested: {', '.join(sorted(missing))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything a bundle holds. Order does not matter to the caller: it is brought into one order here."""

    kubernetes: tuple[str, ...]
    arch: str
    files: tuple[FileEntry, ...] = ()
    images: tuple[ImageEntry, ...] = ()
    blobs: tuple[Blob, ...] = ()
    layout: tuple[LayoutFile, ...] = ()
    packages: tuple[PackageSet, ...] = ()

    def __post_init__(self) -> None:
        for version in self.kubernetes:
            check_kubernetes_version(version)
        if not self.kubernetes:
            raise AssetError("a bundle is for at least one Kubernetes version")
        check_arch(self.arch)
        self._bring_into_order()
        self._check_names()
        self._check_images()

    def _bring_into_order(self) -> None:
        put = object.__setattr__  # the one place where a frozen value is still being made
        put(self, "kubernetes", tuple(sorted(set(self.kubernetes), key=version_key)))
        put(self, "files", tuple(sorted(self.files, key=lambda file: file.path)))
        put(self, "images", tuple(sorted(self.images, key=lambda image: (image.reference, image.name))))
        put(self, "blobs", tuple(sorted(self.blobs, key=lambda blob: blob.digest)))
        put(self, "layout", tuple(sorted(self.layout, key=lambda file: file.path)))
        put(self, "packages", tuple(sorted(self.packages, key=lambda group: group.target)))

    def _check_names(self) -> None:
        _unique((entry.path for entry in self.entries()), "the path")
        _unique((package.target for package in self.packages), "the package set")
        for kind, assets in (("file", self.files), ("image", self.images)):
            _unique(
                (f"{asset.name} for Kubernetes {version}" for asset in assets for version in self._versions_of(asset)),
                f"the {kind}",
            )
        for image in self.images:
            same = [other for other in self.images if other.reference == image.reference]
            if any(other.digest != image.digest for other in same):
                raise AssetError(f"the image {image.reference} is there with more than one digest")

    def _versions_of(self, asset: Asset) -> tuple[str, ...]:
        if strange := set(asset.kubernetes) - set(self.kubernetes):
            raise AssetError(
                f"{asset.name} is for Kubernetes {', '.join(sorted(strange))}, "
                f"but the bundle is for {', '.join(self.kubernetes)}"
            )
        return asset.kubernetes or self.kubernetes

    def _check_images(self) -> None:
        listed = {blob.digest for blob in self.blobs}
        used = {digest for image in self.images for digest in image.blobs}
        if missing := used - listed:
            raise AssetError(f"images use blobs that are not listed: {', '.join(sorted(missing))}")
        if spare := listed - used:
            raise AssetError(f"blobs are listed that no image uses: {', '.join(sorted(spare))}")
        wanted = {INDEX, OCI_LAYOUT} if self.images else set()
        if {file.path for file in self.layout} != wanted:
            raise AssetError("a bundle with images has images/index.json and images/oci-layout, one without has not")

    def entries(self) -> Iterator[Entry]:
        """Every file the bundle must hold, apart from the manifest and its companions."""
        for file in self.files:
            yield Entry(path=file.path, size=file.size, sha256=file.sha256)
        for layout in self.layout:
            yield Entry(path=layout.path, size=layout.size, sha256=layout.sha256)
        for blob in self.blobs:
            yield Entry(path=blob_path(blob.digest), size=blob.size, sha256=blob.digest.removeprefix("sha256:"))
        for group in self.packages:
            for package in group.packages:
                yield Entry(path=package.path, size=package.size, sha256=package.sha256)

    @property
    def total_size(self) -> int:
        """Bytes of all entries together."""
        return sum(entry.size for entry in self.entries())

    @property
    def digest(self) -> str:
        """sha256 of the canonical form: the bundle's identity."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def file(self, name: str, kubernetes: str = "") -> FileEntry:
        """The file with this name, for this Kubernetes version where the bundle is for several."""
        return _only(self.files, name, kubernetes, "file", self)

    def image(self, name: str, kubernetes: str = "") -> ImageEntry:
        """The image with this name, for this Kubernetes version where the bundle is for several."""
        return _only(self.images, name, kubernetes, "image", self)

    def to_json(self) -> bytes:
        """The canonical form: sorted, no spare white space, UTF-8, one newline at the end."""
        from kubexm.assets.manifest_json import encode

        return (json.dumps(encode(self), sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, *, where: str = "manifest.json") -> Manifest:
        """The manifest these bytes are; AssetError names every problem and its place in the document."""
        from kubexm.assets.manifest_json import decode

        return decode(data, where=where)


_A = TypeVar("_A", bound=Asset)


def _only(assets: tuple[_A, ...], name: str, kubernetes: str, kind: str, manifest: Manifest) -> _A:
    found = [asset for asset in assets if asset.name == name and (not kubernetes or asset.serves(kubernetes))]
    if len(found) == 1:
        return found[0]
    if found:
        versions = ", ".join(manifest.kubernetes)
        raise AssetError(f"the bundle holds several {kind}s {name!r}; say for which Kubernetes version: {versions}")
    scope = f" for Kubernetes {kubernetes}" if kubernetes else ""
    raise AssetError(
        f"the bundle holds no {kind} {name!r}{scope}",
        hint=f"It is for Kubernetes {', '.join(manifest.kubernetes)} on {manifest.arch}; see `kubexm bundle show`.",
    )


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise AssetError(f"{what} {name} is there twice")
        seen.add(name)


def _check_size(size: int) -> None:
    if size < 0:
        raise AssetError(f"a size cannot be negative: {size}")


def _check_entry(path: str, size: int, sha256: str, *, under: str) -> None:
    check_path(path)
    if not path.startswith(under):
        raise AssetError(f"{path!r} belongs under {under}")
    _check_size(size)
    check_sha256(sha256)
