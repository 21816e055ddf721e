"""Makes a bundle directory: all of it or nothing. The same inputs give the same bytes, in whatever order they come.

Work happens in a hidden directory beside the target, under a lock; `finish` writes the manifest last and renames.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from kubexm.assets.disk import hash_file, place_file, remove_tree, replacing, write_errors
from kubexm.assets.layout import (
    BLOBS,
    FILES,
    INDEX,
    MANIFEST,
    MANIFEST_SUM,
    OCI_LAYOUT,
    PACKAGES,
    check_arch,
    check_path,
)
from kubexm.assets.locks import FileLock
from kubexm.assets.manifest import (
    Asset,
    Blob,
    FileEntry,
    ImageEntry,
    LayoutFile,
    Manifest,
    PackageEntry,
    PackageSet,
)
from kubexm.assets.names import check_kubernetes_version, check_target
from kubexm.assets.oci import OCI_INDEX, BlobStore, Descriptor, ImageSource, StoredImage, canonical_json
from kubexm.assets.reference import ImageReference
from kubexm.errors import AssetError

__all__ = ["BundleWriter", "image_index"]

_A = TypeVar("_A", bound=Asset)


class BundleWriter:
    """Gathers files, images and packages; `finish` turns them into a bundle at `directory`.

    Use it as a context manager: leaving it without `finish` removes everything it wrote.
    """

    def __init__(
        self, directory: Path, *, kubernetes: Iterable[str], arch: str, replace_existing: bool = False
    ) -> None:
        self.directory = Path(os.path.abspath(directory))  # noqa: PTH100 - resolve() would follow links
        self.kubernetes = tuple(check_kubernetes_version(version) for version in kubernetes)
        self.arch = check_arch(arch)
        self._replace = replace_existing
        self._staging = self.directory.with_name(f".{self.directory.name}.partial")
        self._files: dict[str, FileEntry] = {}
        self._images: dict[tuple[str, str], ImageEntry] = {}
        self._media: dict[str, Descriptor] = {}
        self._blobs: dict[str, int] = {}
        self._packages: dict[str, dict[str, PackageEntry]] = {}
        self._requested: dict[str, set[str]] = {}
        self._over = False
        self._check_target()
        self._lock = FileLock(self.directory.with_name(f".{self.directory.name}.lock"))
        if not self._lock.try_acquire():
            raise AssetError(
                f"another process is making a bundle at {self.directory}", hint="Wait for it, or choose another place."
            )
        remove_tree(self._staging)  # what a killed run left
        with write_errors(self._staging):
            self._staging.mkdir()
        self._store = BlobStore(self._staging / BLOBS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def add_file(
        self,
        source: Path,
        *,
        path: str,
        name: str,
        component: str,
        version: str,
        roles: Iterable[str],
        origin: str,
        licence: str,
        kubernetes: Iterable[str] = (),
        sha256: str = "",
        link: bool = False,
    ) -> FileEntry:
        """Adds a file at upstream's path (HOST/PATH). Added again with the same content, versions and roles add up.

        `sha256` is what it must be, where that is known; `link` hard-links it from its place instead of copying.
        """
        inside = check_path(f"{FILES}/{path}")
        size, found = self._place(source, inside, link=link, expected=sha256)
        entry = FileEntry(
            name=name,
            component=component,
            version=version,
            roles=tuple(roles),
            origin=origin,
            licence=licence,
            kubernetes=tuple(kubernetes),
            path=inside,
            size=size,
            sha256=found,
        )
        self._files[inside] = _merged(self._files.get(inside), entry)
        return self._files[inside]

    def add_image(
        self,
        source: ImageSource,
        *,
        reference: str,
        name: str,
        component: str,
        version: str,
        roles: Iterable[str],
        origin: str,
        licence: str,
        kubernetes: Iterable[str] = (),
    ) -> ImageEntry:
        """Adds an image for the bundle's architecture; blobs it shares with others are kept once."""
        full = str(ImageReference.parse(reference))
        stored = source.store(self._store)
        self._check_platform(stored, full)
        for blob in stored.blobs:
            self._blobs[blob.digest] = blob.size
        self._media[stored.manifest.digest] = stored.blobs[0]
        entry = ImageEntry(
            name=name,
            component=component,
            version=version,
            roles=tuple(roles),
            origin=origin,
            licence=licence,
            kubernetes=tuple(kubernetes),
            reference=full,
            digest=stored.manifest.digest,
            blobs=tuple(blob.digest for blob in stored.blobs),
        )
        key = (full, name)
        self._images[key] = _merged(self._images.get(key), entry)
        return self._images[key]

    def add_package(
        self,
        source: Path,
        *,
        target: str,
        name: str,
        version: str,
        roles: Iterable[str],
        origin: str,
        licence: str,
        requested: bool = False,
        file_name: str = "",
        sha256: str = "",
        link: bool = False,
    ) -> PackageEntry:
        """Adds an OS package for DISTRO-ARCH; `requested` if it was asked for itself, not only needed by another."""
        inside = check_path(f"{PACKAGES}/{check_target(target)}/{file_name or source.name}")
        size, found = self._place(source, inside, link=link, expected=sha256)
        group = self._packages.setdefault(target, {})
        entry = PackageEntry(
            name=name,
            version=version,
            path=inside,
            size=size,
            sha256=found,
            roles=tuple(roles),
            origin=origin,
            licence=licence,
        )
        if (before := group.get(inside)) is not None:
            entry = replace(entry, roles=before.roles + entry.roles)
        group[inside] = entry
        if requested:
            self._requested.setdefault(target, set()).add(name)
        return entry

    def finish(self) -> Manifest:
        """Writes the manifest and puts the bundle in its place, whole."""
        layout: list[LayoutFile] = []
        if self._images:
            index = image_index(self._images.values(), self._media, self.arch)
            marker = canonical_json({"imageLayoutVersion": "1.0.0"})
            layout = [self._write_layout(INDEX, index), self._write_layout(OCI_LAYOUT, marker)]
        manifest = Manifest(
            kubernetes=self.kubernetes,
            arch=self.arch,
            files=tuple(self._files.values()),
            images=tuple(self._images.values()),
            blobs=tuple(Blob(digest=digest, size=size) for digest, size in self._blobs.items()),
            layout=tuple(layout),
            packages=tuple(
                PackageSet(
                    target=target,
                    requested=tuple(self._requested.get(target, ())),
                    packages=tuple(group.values()),
                )
                for target, group in self._packages.items()
            ),
        )
        with replacing(self._staging / MANIFEST) as out:
            out.write(manifest.to_json())
        with replacing(self._staging / MANIFEST_SUM) as out:
            out.write(f"{manifest.digest}  {MANIFEST}\n".encode())
        self._put_in_place()
        self.abort()
        return manifest

    def abort(self) -> None:
        """Removes what was written and gives up the lock; nothing happens after `finish`."""
        if not self._over:
            self._over = True
            remove_tree(self._staging)
            self._lock.release()

    def _place(self, source: Path, inside: str, *, link: bool, expected: str) -> tuple[int, str]:
        target = self._staging / inside
        fresh = target.with_name(f".{target.name}.new")
        try:
            size, found = place_file(source, fresh, link=link)
            if expected and found != expected:
                raise AssetError(f"{source} is damaged: expected sha256 {expected}, got {found}")
            if target.exists() and hash_file(target) != (size, found):
                raise AssetError(f"two different files are to go to {inside}; the second is {source}")
            fresh.replace(target)
        except FileNotFoundError:
            raise AssetError(f"{source} is to go into the bundle, but is not there") from None
        finally:
            fresh.unlink(missing_ok=True)
        return size, found

    def _check_platform(self, stored: StoredImage, reference: str) -> None:
        config = json.loads(self._store.read(stored.manifest.config.digest))
        found = f"{config.get('os')}/{config.get('architecture')}"
        if found != f"linux/{self.arch}":
            raise AssetError(f"the image {reference} is for {found}, the bundle for linux/{self.arch}")

    def _write_layout(self, path: str, data: bytes) -> LayoutFile:
        with replacing(self._staging / path) as out:
            out.write(data)
        return LayoutFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    def _check_target(self) -> None:
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise AssetError(f"{self.directory} is there and is no directory")
        inside = {path.name for path in self.directory.iterdir()}
        if inside and not (self._replace and MANIFEST in inside):
            raise AssetError(
                f"{self.directory} is not empty",
                hint="Choose another place, or remove it first." if MANIFEST not in inside else "A bundle is there.",
            )

    def _put_in_place(self) -> None:
        with write_errors(self.directory):
            old = self.directory.with_name(f".{self.directory.name}.old")
            remove_tree(old)
            if self.directory.exists():
                self.directory.rename(old)
            self._staging.rename(self.directory)
            remove_tree(old)


def image_index(images: Iterable[ImageEntry], manifests: dict[str, Descriptor], arch: str) -> bytes:
    """The index.json of an OCI layout that holds these images, each under its full name."""
    listed = []
    for reference, digest in sorted({(image.reference, image.digest) for image in images}):
        item = manifests[digest].to_json()
        item["platform"] = {"os": "linux", "architecture": arch}
        # containerd takes the first of these as the name; other tools know the second
        item["annotations"] = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
        listed.append(item)
    return canonical_json({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed})


def _merged(before: _A | None, entry: _A) -> _A:
    if before is None:
        return entry
    same = replace(before, roles=entry.roles, kubernetes=entry.kubernetes)
    if same != entry:
        raise AssetError(f"{entry.name} was added twice with different content or description")
    both = before.kubernetes + entry.kubernetes if before.kubernetes and entry.kubernetes else ()
    return replace(before, roles=before.roles + entry.roles, kubernetes=both)
