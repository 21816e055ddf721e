"""From the sources a user names to one bundle with all a cluster needs: the user's own if it has, else one made here.

Whoever installs a cluster reads a bundle and nothing else, wherever its content came from.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kubexm.assets import catalog
from kubexm.assets.bundle import Bundle
from kubexm.assets.cache import FileCache, default_cache
from kubexm.assets.create import BundleRequest, create_bundle
from kubexm.assets.http_source import HttpSource
from kubexm.assets.locks import locked
from kubexm.assets.oci import canonical_json
from kubexm.assets.registry.access import RegistryAccess
from kubexm.assets.sources import BundleSource, Source, Sources
from kubexm.assets.sums import PinnedSums
from kubexm.assets.transfer import Progress, Retry, open_client, shown_url
from kubexm.errors import AssetError

__all__ = ["SourceOptions", "SourceSpec", "covers", "open_sources", "provide_bundle", "provided_place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """One place: a bundle, a mirror, or neither for upstream."""

    bundle: Path | None = None
    mirror: str = ""

    def __post_init__(self) -> None:
        if self.bundle is not None and self.mirror:
            raise AssetError("a source is a bundle or a mirror, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How sources are reached."""

    access: RegistryAccess = field(default_factory=RegistryAccess)
    pinned: PinnedSums | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    ca_file: Path | None = None
    trust_env: bool = True
    retry: Retry = field(default_factory=Retry)
    progress: Progress | None = None


@contextlib.asynccontextmanager
async def open_sources(specs: Sequence[SourceSpec], cache: FileCache, options: SourceOptions) -> AsyncIterator[Sources]:
    """The sources, opened; bundles are closed again afterwards."""
    async with open_client(ca_file=options.ca_file, trust_env=options.trust_env) as client:
        with ExitStack() as opened:
            sources: list[Source] = []
            for spec in specs:
                if spec.bundle is not None:
                    sources.append(BundleSource(opened.enter_context(Bundle.open(spec.bundle)), cache))
                else:
                    sources.append(
                        HttpSource(
                            client,
                            cache,
                            mirror=spec.mirror,
                            access=options.access,
                            pinned=options.pinned,
                            versions=options.versions,
                            retry=options.retry,
                            progress=options.progress,
                        )
                    )
            yield Sources(sources)


def covers(bundle: Bundle, *, kubernetes: str, arch: str, features: Iterable[str] | None, images: bool = True) -> bool:
    """Whether a bundle alone holds all that a cluster with these features needs; without `images`, its files."""
    manifest = bundle.manifest
    if manifest.arch != arch or kubernetes not in manifest.kubernetes:
        return False
    wanted = catalog.release(kubernetes, arch).select(features=features)
    files = {file.name for file in manifest.files if file.serves(kubernetes)}
    held = {image.name for image in manifest.images if image.serves(kubernetes)}
    needed = {image.name for image in wanted.images} if images else set()
    return {file.name for file in wanted.files} <= files and needed <= held


async def provide_bundle(
    specs: Sequence[SourceSpec],
    *,
    kubernetes: str,
    arch: str,
    features: Sequence[str],
    options: SourceOptions,
    images: bool = True,
    cache: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """A bundle with all that a cluster with these features needs: the first named that does, else one in the cache.

    The one in the cache is put together from the sources in their order, and used again while they stay the same.
    Without `images` files are enough: nodes get images from elsewhere.
    """
    for spec in specs:
        if spec.bundle is None:
            break
        with Bundle.open(spec.bundle) as bundle:
            if covers(bundle, kubernetes=kubernetes, arch=arch, features=features, images=images):
                return spec.bundle
            if bundle.manifest.arch == arch and kubernetes in bundle.manifest.kubernetes:
                break  # it has a part of it, and comes first
    base = cache or default_cache()
    place = provided_place(
        specs, kubernetes=kubernetes, arch=arch, features=features, options=options, images=images, cache=base
    )
    async with locked(place.with_name(f".{place.name}.provide")):
        if not place.is_dir():
            request = BundleRequest(
                kubernetes=(kubernetes,), arch=arch, out=place, features=tuple(features), images=images
            )
            files = FileCache(base / "downloads")
            async with open_sources(specs, files, options) as sources:
                await create_bundle(request, sources, files, say=say)
    return place


def provided_place(
    specs: Sequence[SourceSpec],
    *,
    kubernetes: str,
    arch: str,
    features: Sequence[str],
    options: SourceOptions,
    images: bool = True,
    cache: Path,
) -> Path:
    """Where `provide_bundle` keeps what it puts together from these sources, whether it is there yet or not."""
    named = [kubernetes, arch, sorted(features), dict(options.versions), [_identity(spec) for spec in specs]]
    named += [] if images else ["files only"]
    return cache / "bundles" / f"{kubernetes}-{arch}-{hashlib.sha256(canonical_json(named)).hexdigest()[:12]}"


def _identity(spec: SourceSpec) -> str:
    if spec.bundle is None:
        return shown_url(spec.mirror) if spec.mirror else "upstream"
    with Bundle.open(spec.bundle) as bundle:
        return bundle.manifest.digest
