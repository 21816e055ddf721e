"""A lab's bundle from the projects' own download sites, where this machine can reach them: a minute, not a build."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubexm.assets import catalog
from kubexm.assets.provide import SourceOptions, SourceSpec, provide_bundle, provided_place
from kubexm.assets.reference import ImageReference
from kubexm.assets.registry.access import RegistryAccess
from kubexm.assets.transfer import Transient, following, open_client
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = [
    "BUILDING_TAKES",
    "DOWNLOADING_TAKES",
    "PROBE_SECONDS",
    "Site",
    "download",
    "downloaded",
    "place",
    "probe",
    "sites",
]

PROBE_SECONDS: Final = 5.0
DOWNLOADING_TAKES: Final = "This takes about a minute on a fast connection; what is downloaded is kept."
BUILDING_TAKES: Final = (
    "A build from nothing takes about 15 minutes on two idle cores, longer on a busy machine. It is kept, and "
    "continues where it was stopped."
)
_OPTIONAL: Final = ("helm", "registry", "upgrade")
_ANSWERS: Final = frozenset({200, 401})
"""401 is how a registry asks for a token, which it then gives to anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A server that something comes from, and a small thing to ask it for."""

    host: str
    url: str


def sites(kubernetes: str, arch: str) -> tuple[Site, ...]:
    """Every server that a bundle for this version is downloaded from."""
    release = catalog.release(kubernetes, arch).select(features=_features())
    access = RegistryAccess()
    found: dict[str, str] = {}
    for file in release.files:
        if file.sums_path:
            found.setdefault(file.sums_path.partition("/")[0], f"https://{file.sums_path}")
    references = [image.reference for image in release.images] + [file.rootfs for file in release.files if file.rootfs]
    for reference in references:
        endpoint = access.endpoints(ImageReference.parse(reference))[-1]
        found.setdefault(endpoint.host, f"{endpoint.url}/v2/")
    return tuple(Site(host=host, url=url) for host, url in found.items())


async def probe(
    named: Iterable[Site], *, seconds: float = PROBE_SECONDS, ca_file: Path | None = None, trust_env: bool = True
) -> str:
    """Asks all of them at once for something small; why they cannot be used, or nothing if all of them answer."""
    async with open_client(ca_file=ca_file, trust_env=trust_env) as client:
        found = await asyncio.gather(*(_ask(client, site, seconds) for site in named))
    hosts: dict[str, list[str]] = {}
    for host, reason in found:
        hosts.setdefault(reason, []).append(host)
    return "; ".join(f"{', '.join(those)}: {reason}" for reason, those in hosts.items() if reason)


async def _ask(client: httpx.AsyncClient, site: Site, seconds: float) -> tuple[str, str]:
    """The host, and what is wrong with it."""
    try:
        async with asyncio.timeout(seconds), following(client)(site.url, {}) as answer:
            return site.host, "" if answer.status_code in _ANSWERS else f"HTTP {answer.status_code}"
    except TimeoutError:
        return site.host, f"no answer within {seconds:g} s"
    except Transient as error:
        return site.host, error.reason
    except AssetError as error:
        return site.host, error.message


def place(kubernetes: str, arch: str, cache: Path) -> Path:
    """Where `download` puts its bundle."""
    return provided_place(
        [SourceSpec()], kubernetes=kubernetes, arch=arch, features=_features(), options=SourceOptions(), cache=cache
    )


def downloaded(kubernetes: str, arch: str, cache: Path) -> Path | None:
    """The bundle that `download` made before, if there is one."""
    found = place(kubernetes, arch, cache)
    return found if found.is_dir() else None


async def download(
    kubernetes: str,
    arch: str,
    cache: Path,
    *,
    say: Callable[[str], None],
    options: SourceOptions | None = None,
) -> Path:
    """A bundle in the cache with everything a cluster needs, from upstream; the same place each time."""
    return await provide_bundle(
        [SourceSpec()],
        kubernetes=kubernetes,
        arch=arch,
        features=_features(),
        options=options or SourceOptions(),
        cache=cache,
        say=say,
    )


def _features() -> tuple[str, ...]:
    return tuple(feature for feature in catalog.features() if feature not in _OPTIONAL)
