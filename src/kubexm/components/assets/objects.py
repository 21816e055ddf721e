"""Objects that upstream publishes, from the catalog. Plans name them by digest; what is in them is read by steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubexm.assets import ImageReference
from kubexm.components.api import yaml_documents
from kubexm.errors import AssetError
from kubexm.runtime import StepContext, TaskContext

__all__ = ["CatalogObjects", "catalog_objects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogObjects:
    """A manifest or chart of the catalog, for the fields of a step."""

    name: str
    kind: str
    version: str
    path: str
    """In the bundle."""
    sha256: str
    images: tuple[tuple[str, str], ...] = ()
    """What upstream calls each image the objects use, and what this cluster calls it."""

    async def documents(self, ctx: StepContext) -> list[dict[str, Any]]:
        """The objects of a manifest, with images as this cluster names them.

        AssetError if the bundle has another file, or an object uses an image that the catalog does not list for it.
        """
        place = ctx.assets.local(self.path, ctx.facts.arch, sha256=self.sha256)
        text = await asyncio.to_thread(place.read_text, "utf-8")
        found = [document for document in yaml_documents(text, self.path) if isinstance(document, dict)]
        names = dict(self.images)
        for holder in (holder for document in found for holder in _holders(document)):
            upstream = str(ImageReference.parse(holder["image"]))
            if upstream not in names:
                raise AssetError(
                    f"{self.name} {self.version} uses the image {upstream}, which the catalog does not list for it",
                    hint="The file is not the one the catalog was written for: check its version and sha256.",
                )
            holder["image"] = names[upstream]
        return found


def catalog_objects(ctx: TaskContext, name: str) -> CatalogObjects:
    """What planning knows of the catalog's manifest or chart `name`."""
    found = ctx.assets.objects(name)
    arch = next(iter(ctx.assets.arches), "amd64")
    return CatalogObjects(
        name=name,
        kind=found.kind,
        version=found.version,
        path=found.path,
        sha256=found.sha256,
        images=tuple((ctx.assets.upstream(image, arch), ctx.assets.image(image).reference) for image in found.images),
    )


def _holders(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping that names an image as containers do."""
    if isinstance(node, dict):
        if isinstance(node.get("image"), str) and isinstance(node.get("name"), str):
            yield node
        for value in node.values():
            yield from _holders(value)
    elif isinstance(node, list):
        for value in node:
            yield from _holders(value)
