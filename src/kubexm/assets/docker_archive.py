"""Images from a docker-archive: the tar `docker save` and kubexm's own image builder write. Reads, never writes."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from kubexm.assets.disk import CHUNK
from kubexm.assets.oci import OCI_CONFIG, BlobStore, Descriptor, ImageManifest, StoredImage, layer_media_type
from kubexm.errors import AssetError

__all__ = ["DockerArchive"]

_MAX_DOCUMENT = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerArchive:
    """An image in a docker-archive, named by its reference, or the only one there."""

    path: Path
    reference: str = ""

    def store(self, blobs: BlobStore) -> StoredImage:
        """Puts the image into the store under a manifest made for it; layers are checked against the config."""
        try:
            with tarfile.open(self.path) as archive:
                return self._store(archive, blobs)
        except (tarfile.TarError, EOFError) as error:
            raise AssetError(f"{self.path} is not a whole docker-archive: {error}") from error
        except FileNotFoundError:
            raise AssetError(f"the docker-archive {self.path} is not there") from None

    def _store(self, archive: tarfile.TarFile, blobs: BlobStore) -> StoredImage:
        entry = self._entry(json.loads(self._read(archive, "manifest.json")))
        config = self._read(archive, str(entry["Config"]))
        diff_ids = (json.loads(config).get("rootfs") or {}).get("diff_ids") or []
        names = entry.get("Layers") or []
        if len(diff_ids) != len(names):
            raise AssetError(f"{self.path}: the config names {len(diff_ids)} layers, the archive {len(names)}")
        digest, size = blobs.put_bytes(config)
        layers = [
            self._store_layer(archive, str(name), str(diff), blobs) for name, diff in zip(names, diff_ids, strict=True)
        ]
        manifest = ImageManifest.compose(Descriptor(media_type=OCI_CONFIG, digest=digest, size=size), layers)
        blobs.put_bytes(manifest.data)
        return StoredImage.of(manifest)

    def _entry(self, listed: object) -> dict[str, Any]:
        images = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        if self.reference:
            images = [item for item in images if self.reference in (item.get("RepoTags") or [])]
        if len(images) != 1:
            wanted = f"no image {self.reference}" if self.reference else f"{len(images)} images, not one"
            raise AssetError(f"{self.path} holds {wanted}")
        return images[0]

    def _store_layer(self, archive: tarfile.TarFile, name: str, diff_id: str, blobs: BlobStore) -> Descriptor:
        with self._member(archive, name) as stream:
            media_type = layer_media_type(stream.read(4))
            stream.seek(0)
            plain = _sha256(_uncompressed(stream, media_type))
            if f"sha256:{plain}" != diff_id:
                raise AssetError(f"{self.path}: the layer {name} is damaged: expected {diff_id}, got sha256:{plain}")
            stream.seek(0)
            digest, size = blobs.put(stream, where=f"{self.path}: {name}")
        return Descriptor(media_type=media_type, digest=digest, size=size)

    def _member(self, archive: tarfile.TarFile, name: str) -> BinaryIO:
        try:
            stream = archive.extractfile(name)
        except KeyError:
            stream = None
        if stream is None:
            raise AssetError(f"{self.path} is not a docker-archive: it has no file {name}")
        return cast("BinaryIO", stream)

    def _read(self, archive: tarfile.TarFile, name: str) -> bytes:
        with self._member(archive, name) as stream:
            data = stream.read(_MAX_DOCUMENT + 1)
        if len(data) > _MAX_DOCUMENT:
            raise AssetError(f"{self.path}: {name} is too large for what it should be")
        try:
            json.loads(data)
        except ValueError as error:
            raise AssetError(f"{self.path}: {name} is not JSON: {error}") from None
        return data


def _uncompressed(stream: BinaryIO, media_type: str) -> IO[bytes]:
    if media_type.endswith("+gzip"):
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    if media_type.endswith("+zstd"):
        import zstandard

        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))
    return stream


def _sha256(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
