"""Images of a bundle as one tar that `ctr images import` takes: an OCI layout, shared blobs once, streamed.

The same images give the same bytes, and the length is known before the first byte is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubexm.assets.bundle import Bundle
from kubexm.assets.disk import CHUNK, replacing
from kubexm.assets.layout import blob_path
from kubexm.assets.manifest import ImageEntry
from kubexm.assets.oci import Descriptor, ImageManifest, canonical_json
from kubexm.assets.tarball import END, member_length, padding, tar_header
from kubexm.assets.writer import image_index
from kubexm.errors import AssetError

__all__ = ["ImageArchive"]


class ImageArchive:
    """A tar of some of a bundle's images, made while it is read."""

    def __init__(self, bundle: Bundle, images: Iterable[ImageEntry]) -> None:
        self.images = tuple(sorted(images, key=lambda image: image.reference))
        if not self.images:
            raise AssetError("an image archive holds at least one image")
        self._bundle = bundle
        sizes = {blob.digest: blob.size for blob in bundle.manifest.blobs}
        self._blobs = {digest: sizes[digest] for image in self.images for digest in image.blobs}
        manifests = {image.digest: self._descriptor(image, sizes) for image in self.images}
        self._texts = {
            "index.json": image_index(self.images, manifests, bundle.manifest.arch),
            "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
        }

    @property
    def size(self) -> int:
        """How many bytes it will be."""
        texts = sum(member_length(len(data)) for data in self._texts.values())
        return texts + sum(member_length(size) for size in self._blobs.values()) + len(END)

    @property
    def identity(self) -> str:
        """A sha256 that names its content, known without reading the images: same content, same identity."""
        named = [[image.reference, image.digest] for image in self.images]
        return hashlib.sha256(canonical_json(named)).hexdigest()

    def chunks(self) -> Iterator[bytes]:
        """The tar, piece by piece; AssetError if a blob turns out to be damaged."""
        for digest, size in sorted(self._blobs.items()):
            yield tar_header(blob_path(digest).removeprefix("images/"), size)
            with self._bundle.open_file(blob_path(digest)) as stream:
                while chunk := stream.read(CHUNK):
                    yield chunk
            yield padding(size)
        for name, data in self._texts.items():
            yield tar_header(name, len(data)) + data + padding(len(data))
        yield END

    def write(self, target: Path) -> str:
        """Writes the tar, whole or not at all; gives its sha256."""
        digest = hashlib.sha256()
        with replacing(target) as out:
            for chunk in self.chunks():
                digest.update(chunk)
                out.write(chunk)
        return digest.hexdigest()

    def _descriptor(self, image: ImageEntry, sizes: dict[str, int]) -> Descriptor:
        with self._bundle.open_file(blob_path(image.digest)) as stream:
            manifest = ImageManifest.parse(stream.read(), image.reference)
        return Descriptor(media_type=manifest.media_type, digest=image.digest, size=sizes[image.digest])
