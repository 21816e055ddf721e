"""Images as the OCI specifies them: descriptors, manifests, and the blobs of a layout. Knows no network.

An image comes from an ImageSource, which puts its blobs into a BlobStore and says which they were. Manifests are kept
byte for byte, so that an image keeps the digest it is known by upstream.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from kubexm.assets.disk import copy_hashed, hash_file, replacing, write_errors
from kubexm.assets.layout import check_digest
from kubexm.assets.locks import locked
from kubexm.errors import AssetError

__all__ = [
    "DOCKER_IMAGE",
    "DOCKER_LIST",
    "OCI_CONFIG",
    "OCI_IMAGE",
    "OCI_INDEX",
    "OCI_LAYER",
    "BlobStore",
    "Descriptor",
    "ImageBlobs",
    "ImageManifest",
    "ImageSource",
    "OciLayoutImage",
    "StoredImage",
    "canonical_json",
    "layer_media_type",
    "pick_platform",
]

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_IMAGE = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_IMAGE = "application/vnd.docker.distribution.manifest.v2+json"

_MAX_DOCUMENT = 8 * 1024 * 1024


def canonical_json(value: object) -> bytes:
    """One spelling for one value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """Points to content: its type, digest and size."""

    media_type: str
    digest: str
    size: int

    @classmethod
    def parse(cls, value: object, where: str) -> Descriptor:
        """The descriptor this JSON value is."""
        if not isinstance(value, dict):
            raise AssetError(f"{where}: a descriptor is expected")
        digest, size = value.get("digest"), value.get("size")
        if not isinstance(digest, str) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AssetError(f"{where}: a descriptor needs a digest and a size")
        return cls(media_type=str(value.get("mediaType", "")), digest=check_digest(digest), size=size)

    def to_json(self) -> dict[str, object]:
        """As in a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageManifest:
    """The manifest of an image for one platform, with the very bytes it was given as."""

    data: bytes
    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def digest(self) -> str:
        """What the image is known by."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()

    @classmethod
    def parse(cls, data: bytes, where: str) -> ImageManifest:
        """The manifest these bytes are; AssetError if they are something else."""
        document = parse_document(data, where)
        layers = document.get("layers")
        if "config" not in document or not isinstance(layers, list):
            raise AssetError(f"{where} is not an image manifest: it has no config and layers")
        return cls(
            data=data,
            media_type=str(document.get("mediaType") or OCI_IMAGE),
            config=Descriptor.parse(document["config"], f"{where}: config"),
            layers=tuple(Descriptor.parse(layer, f"{where}: layers[{n}]") for n, layer in enumerate(layers)),
        )

    @classmethod
    def compose(cls, config: Descriptor, layers: Sequence[Descriptor]) -> ImageManifest:
        """A manifest made here, for content that came without one."""
        data = canonical_json(
            {
                "schemaVersion": 2,
                "mediaType": OCI_IMAGE,
                "config": config.to_json(),
                "layers": [layer.to_json() for layer in layers],
            }
        )
        return cls(data=data, media_type=OCI_IMAGE, config=config, layers=tuple(layers))


def parse_document(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object these bytes are."""
    if len(data) > _MAX_DOCUMENT:
        raise AssetError(f"{where} is too large for what it should be ({len(data)} bytes)")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AssetError(f"{where} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise AssetError(f"{where} is not a JSON object")
    return document


def pick_platform(index: dict[str, Any], arch: str, where: str) -> Descriptor:
    """The descriptor of an index's manifest for Linux on this architecture, its plainest variant first."""
    found: list[tuple[str, Descriptor]] = []
    offered: list[str] = []
    for number, item in enumerate(index.get("manifests") or []):
        platform = item.get("platform") if isinstance(item, dict) else None
        platform = platform if isinstance(platform, dict) else {}
        name = "/".join(str(platform.get(key)) for key in ("os", "architecture", "variant") if platform.get(key))
        offered.append(name or "unnamed")
        if platform.get("os") == "linux" and platform.get("architecture") == arch:
            found.append((str(platform.get("variant") or ""), Descriptor.parse(item, f"{where}: manifests[{number}]")))
    if not found:
        raise AssetError(
            f"{where} is not there for linux/{arch}",
            hint=f"It is offered for {', '.join(offered) or 'nothing at all'}.",
        )
    best = {"": 0, "v8": 1}  # arm64 with no variant means v8
    return min(found, key=lambda pair: (best.get(pair[0], 2), pair[0]))[1]


def layer_media_type(start: bytes) -> str:
    """The media type of a layer that begins with these bytes."""
    if start.startswith(b"\x1f\x8b"):
        return OCI_LAYER + "+gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return OCI_LAYER + "+zstd"
    return OCI_LAYER


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image whose blobs are all in a store."""

    manifest: ImageManifest
    blobs: tuple[Descriptor, ...] = field(default=())
    """Manifest, config, layers; each once."""

    @classmethod
    def of(cls, manifest: ImageManifest) -> StoredImage:
        """The image this manifest describes."""
        own = Descriptor(media_type=manifest.media_type, digest=manifest.digest, size=len(manifest.data))
        seen = {blob.digest: blob for blob in (own, manifest.config, *manifest.layers)}
        return cls(manifest=manifest, blobs=tuple(seen.values()))


class BlobStore:
    """Blobs in a directory, each named by its sha256, written whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be."""
        return self.directory / check_digest(digest).removeprefix("sha256:")

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob of this digest and size is there."""
        path = self.path(descriptor.digest)
        return path.is_file() and path.stat().st_size == descriptor.size

    def intact(self, descriptor: Descriptor) -> bool:
        """Whether the blob is there and is what its name says, byte for byte."""
        return self.has(descriptor) and hash_file(self.path(descriptor.digest))[1] == descriptor.digest[7:]

    def exclusive(self, digest: str) -> AbstractAsyncContextManager[None]:
        """Holds a blob for oneself while it is being fetched; other processes and tasks wait."""
        return locked(self.path(digest).with_name(f".{self.path(digest).name}.lock"))

    def read(self, digest: str) -> bytes:
        """A small blob's content."""
        return self.path(digest).read_bytes()

    def put(self, source: BinaryIO, *, expected: Descriptor | None = None, where: str = "") -> tuple[str, int]:
        """Stores what `source` holds; AssetError, and nothing stored, if it is not what was expected."""
        with write_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.directory, prefix=".incoming.")
            staged = Path(name)
            try:
                with os.fdopen(handle, "wb") as out:
                    os.fchmod(out.fileno(), 0o644)
                    size, sha256 = copy_hashed(source, out)
                digest = f"sha256:{sha256}"
                if expected is not None and (digest, size) != (expected.digest, expected.size):
                    raise AssetError(
                        f"{where or 'a blob'} is damaged: expected {expected.digest} with {expected.size} bytes, "
                        f"got {digest} with {size} bytes"
                    )
                staged.replace(self.path(digest))
            finally:
                staged.unlink(missing_ok=True)
        return digest, size

    def put_bytes(self, data: bytes) -> tuple[str, int]:
        """Stores a small blob."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        with replacing(self.path(digest), durable=False) as out:
            out.write(data)
        return digest, len(data)


class ImageSource(Protocol):
    """Something an image can be taken from."""

    def store(self, blobs: BlobStore) -> StoredImage:
        """Puts the image's manifest, config and layers into the store, skipping what is there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBlobs:
    """An image given as its manifest and a way to open each of its blobs by digest."""

    manifest: bytes
    open_blob: Callable[[str], BinaryIO]
    where: str = "the image"

    def store(self, blobs: BlobStore) -> StoredImage:
        """Puts the image into the store; each blob is checked against the manifest."""
        manifest = ImageManifest.parse(self.manifest, self.where)
        for blob in (manifest.config, *manifest.layers):
            if not blobs.has(blob):
                with self.open_blob(blob.digest) as stream:
                    blobs.put(stream, expected=blob, where=f"{self.where}: blob {blob.digest}")
        blobs.put_bytes(self.manifest)
        return StoredImage.of(manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciLayoutImage:
    """An image in an OCI layout directory, named by its reference, or the only one there."""

    directory: Path
    arch: str
    reference: str = ""

    def store(self, blobs: BlobStore) -> StoredImage:
        """Puts the image into the store; each blob is checked against its digest."""
        own = BlobStore(self.directory / "blobs" / "sha256")
        index_path = self.directory / "index.json"
        if not index_path.is_file():
            raise AssetError(f"{self.directory} is not an OCI layout: it has no index.json")
        descriptor = self._find(parse_document(index_path.read_bytes(), str(index_path)))
        data = _read_checked(own, descriptor.digest)
        document = parse_document(data, f"{self.directory}: {descriptor.digest}")
        if "manifests" in document:
            data = _read_checked(own, pick_platform(document, self.arch, self.reference or str(self.directory)).digest)
        return ImageBlobs(
            manifest=data, open_blob=lambda digest: own.path(digest).open("rb"), where=str(self.directory)
        ).store(blobs)

    def _find(self, index: dict[str, Any]) -> Descriptor:
        listed = [item for item in index.get("manifests") or [] if isinstance(item, dict)]
        names = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
        if self.reference:
            found = [
                item for item in listed if self.reference in {(item.get("annotations") or {}).get(n) for n in names}
            ]
        else:
            found = listed
        if not found:
            raise AssetError(f"{self.directory} holds no image {self.reference or 'at all'}")
        if len(found) > 1:
            fitting = [i for i in found if (i.get("platform") or {}).get("architecture") == self.arch]
            if len(fitting) != 1:
                raise AssetError(f"{self.directory} holds several images; say which by its reference")
            found = fitting
        return Descriptor.parse(found[0], f"{self.directory}/index.json")


def _read_checked(blobs: BlobStore, digest: str) -> bytes:
    path = blobs.path(digest)
    if not path.is_file():
        raise AssetError(f"the blob {path} is missing")
    _, sha256 = hash_file(path)
    if f"sha256:{sha256}" != digest:
        raise AssetError(f"the blob {path} is damaged: its sha256 is {sha256}")
    return path.read_bytes()
