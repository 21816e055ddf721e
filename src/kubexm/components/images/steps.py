"""Images on a host: sent, imported, or pulled. Must not know who needs which.

What was measured (11 images of a control plane, 142 MB compressed, one host; seconds of wall clock and of containerd's
processor time, on a busy machine with 2 cores):

| how | wall | processor |
|---|---|---|
| one archive, `import` (through the transfer service, unpacked) | 6.0 | 4.1 |
| one archive, `import --local` (unpacked) | 5.1 | 3.6 |
| an archive for each image, one after the other | 7.9 | 4.6 |
| an archive for each image, all at once | 5.3 | 4.1 |
| one archive, `import --no-unpack` | 3.1 | 1.6 |
| **one archive, `import --local --no-unpack`** | **1.1** | **0.6** |

So images are imported and not unpacked: containerd does that when a container first wants one (0.3 s for an API
server), on the nodes that run it and for no other. Sending waits for nothing, not even for containerd; the archive is a
plain file until then, continued where it was cut off, and never waited for on the disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.cache import Key, Scope
from kubexm.components.runtimes import DEFAULT_RUNTIME, runtime_named
from kubexm.connector import Upload
from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runner import STATE
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import recall, remember

__all__ = ["ImagesImported", "ImagesPulled", "ImagesSent", "WantedImage"]

_INCOMING = STATE / "incoming"
_BEFORE: Key[list[str]] = Key("images.before", per_host=True, scope=Scope.STEP)
_LOOK = """\
for a in {incoming}/images-*.tar; do if [ -f "$a" ]; then printf 'archive %s\\n' "${{a##*/}}"; fi; done
{{ {list}
}} | sed 's/^/image /'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedImage:
    """An image a host is to have."""

    name: str
    reference: str
    digest: str = ""
    """Empty: whichever has this reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    archives: frozenset[str]
    images: frozenset[tuple[str, str]]

    def references(self) -> list[str]:
        """What images are called."""
        return sorted({reference for reference, _ in self.images})

    def lacking(self, wanted: Iterable[WantedImage]) -> tuple[WantedImage, ...]:
        """Those of them that are not there."""
        references = {reference for reference, _ in self.images}

        def there(image: WantedImage) -> bool:
            return (image.reference, image.digest) in self.images if image.digest else image.reference in references

        return tuple(image for image in wanted if not there(image))


async def _look(ctx: StepContext, runtime: str) -> _Found:
    """What the host has: images, as far as the runtime is there to be asked, and archives of them."""
    script = _LOOK.format(incoming=shell(ctx.host.placed.place), list=runtime_named(runtime).list_images)
    result = await ctx.host.command.read(script, display="list images", check=False, within=110)
    lines = [line.split(" ") for line in result.text.splitlines()]
    return _Found(
        archives=frozenset(words[1] for words in lines if len(words) == 2 and words[0] == "archive"),
        images=frozenset((words[1], words[2]) for words in lines if len(words) == 3 and words[0] == "image"),
    )


def archive_name(images: Iterable[WantedImage]) -> str:
    """What the archive of these images is called on a host: the same for the same images."""
    named = sorted([image.reference, image.digest] for image in images)
    return f"images-{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]}.tar"


async def _send(ctx: StepContext, images: tuple[WantedImage, ...], release: str) -> PurePosixPath:
    """The archive of these images of a release is on the host."""
    shelf = ctx.assets.release(release) if release else ctx.assets
    source, sha256 = await shelf.archive([image.name for image in images], ctx.facts.arch)
    place = await ctx.host.placed.incoming("images") / archive_name(images)
    await ctx.host.connector.upload(Upload(source=source, path=place, mode=0o600, sha256=sha256, durable=False))
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfImages(Step):
    images: tuple[WantedImage, ...]
    release: str = ""
    """The Kubernetes release whose images they are; empty: the cluster's own."""
    runtime: str = DEFAULT_RUNTIME

    def reads(self) -> Resources:
        """Images and archives of them."""
        return resources("image:*", f"file:{_INCOMING}/images-*")

    def sums_needed(self) -> tuple[str, ...]:
        """The images' digests."""
        return tuple(image.digest.removeprefix("sha256:") for image in self.images if image.digest)

    def describe(self) -> str:
        """How many, of what."""
        names = ", ".join(image.name for image in self.images[:3])
        more = f" and {len(self.images) - 3} more" if len(self.images) > 3 else ""
        return f"{self._verb} {names}{more}"

    async def _remove_new(self, ctx: StepContext) -> None:
        """Those of these images that came with this run go, under every name the runtime has for them."""
        before, found = recall(ctx, _BEFORE), await _look(ctx, self.runtime)
        wanted = {image.reference for image in self.images} - set(before)
        digests = {digest for reference, digest in found.images if reference in wanted}
        names = sorted(name for name, digest in found.images if name not in before and digest in digests)
        if names:
            words = runtime_named(self.runtime).remove_images(names)
            await ctx.host.command.run(words, display=f"remove {len(wanted)} images", within=120)

    @property
    def _verb(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesSent(_OfImages):
    """What the host lacks of these images is there as an archive, ready to be imported."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at images and archives, in one read."""
        found = await _look(ctx, self.runtime)
        lacking = found.lacking(self.images)
        if not lacking or archive_name(lacking) in found.archives:
            return Check(True)
        return Check(False, reason=f"{len(lacking)} of {len(self.images)} images are not there")

    async def run(self, ctx: StepContext) -> None:
        """Sends what is lacking, once."""
        lacking = (await _look(ctx, self.runtime)).lacking(self.images)
        if lacking:
            await _send(ctx, lacking, self.release)

    async def rollback(self, ctx: StepContext) -> None:
        """Removes archives that were not imported."""
        await _clear(ctx)

    def writes(self) -> Resources:
        """The archive."""
        return resources(f"file:{_INCOMING}/images-*")

    @property
    def _verb(self) -> str:
        return "sent images"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesImported(_OfImages):
    """The runtime has these images, and no archive of them is left on the host."""

    settle: ClassVar[float] = 5.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the runtime, in one read."""
        found = await _look(ctx, self.runtime)
        lacking = found.lacking(self.images)
        if lacking:
            names = ", ".join(image.reference for image in lacking[:3])
            return Check(False, reason=f"{len(lacking)} of {len(self.images)} images are lacking: {names}")
        return Check(False, reason="an archive of images is left over") if found.archives else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Imports what is lacking, and clears up."""
        found = await _look(ctx, self.runtime)
        remember(ctx, _BEFORE, found.references())
        lacking = found.lacking(self.images)
        if lacking:
            archive = await _send(ctx, lacking, self.release)  # costs a look if it was sent already
            await ctx.host.command.run(
                runtime_named(self.runtime).import_images(str(archive)),
                display=f"import {len(lacking)} images",
                within=900,
                long=True,
            )
        await _clear(ctx)

    async def rollback(self, ctx: StepContext) -> None:
        """Removes the images that this run imported, and what is left of their archive."""
        await self._remove_new(ctx)
        await _clear(ctx)

    def writes(self) -> Resources:
        """Images, and the archive that goes."""
        return resources("image:*", f"file:{_INCOMING}/images-*")

    @property
    def _verb(self) -> str:
        return "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesPulled(_OfImages):
    """The runtime has these images, from the registries it is configured for: what no bundle holds."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the runtime, in one read."""
        lacking = (await _look(ctx, self.runtime)).lacking(self.images)
        names = ", ".join(image.reference for image in lacking[:3])
        return Check(False, reason=f"lacking: {names}") if lacking else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Pulls one after the other: each is fetched in parallel parts already."""
        found = await _look(ctx, self.runtime)
        remember(ctx, _BEFORE, found.references())
        for image in found.lacking(self.images):
            result = await ctx.host.command.run(
                shell("crictl", "--timeout", "900s", "pull", "--", image.reference),
                display=f"pull {image.reference}",
                within=960,
                long=True,
                check=False,
            )
            if not result.ok:
                lines = result.error_text.strip().splitlines()
                raise StepError(
                    f"{image.reference} cannot be pulled: {lines[-1] if lines else 'crictl says nothing'}",
                    host=ctx.host.name,
                    hint="see that the registry has it and spec.registry is right, or use a bundle that holds images",
                )

    async def rollback(self, ctx: StepContext) -> None:
        """Removes the images that this run pulled."""
        await self._remove_new(ctx)

    def writes(self) -> Resources:
        """Images."""
        return resources("image:*")

    @property
    def _verb(self) -> str:
        return "pulled images"


async def _clear(ctx: StepContext) -> None:
    place = shell(ctx.host.placed.place)
    script = f"rm -f -- {place}/images-*.tar {place}/.kubexm-images-*.part"
    await ctx.host.command.run(script, display="remove archives of images")
