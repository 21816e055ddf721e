"""Where to ask for an image: a registry's mirrors in the user's order, then itself; over TLS if not told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubexm.assets.reference import ImageReference
from kubexm.assets.registry.auth import Credentials
from kubexm.errors import AssetError

__all__ = ["Endpoint", "RegistryAccess", "parse_mirrors", "parse_target"]

_DOCKER_HUB = "registry-1.docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A place that speaks the registry API: its URL, and what comes before each repository's name there."""

    url: str
    prefix: str = ""
    credentials: Credentials | None = None

    @property
    def host(self) -> str:
        """Host and port."""
        return self.url.partition("://")[2]

    def repository(self, name: str) -> str:
        """The repository's name there."""
        return f"{self.prefix}/{name}" if self.prefix else name


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """What the user said about registries: mirrors, which ones have no TLS, and who we are there."""

    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By registry, or under `*` for all of them: URLs, with a path if repositories are below one."""
    plain_http: frozenset[str] = frozenset()
    credentials: Mapping[str, Credentials] = field(default_factory=dict)

    def endpoints(self, reference: ImageReference) -> list[Endpoint]:
        """Where to ask for this image, in order."""
        named = [*self.mirrors.get(reference.registry, ()), *self.mirrors.get("*", ())]
        return [*(self._mirror(url) for url in named), self.registry(reference.registry)]

    def registry(self, host: str, *, prefix: str = "") -> Endpoint:
        """The registry with this host itself."""
        address = _DOCKER_HUB if host == "docker.io" else host
        scheme = "http" if host in self.plain_http else "https"
        return Endpoint(url=f"{scheme}://{address}", prefix=prefix, credentials=self.credentials.get(host))

    def _mirror(self, url: str) -> Endpoint:
        scheme, _, rest = url.partition("://")
        host, _, prefix = rest.strip("/").partition("/")
        return Endpoint(url=f"{scheme}://{host}", prefix=prefix, credentials=self.credentials.get(host))


def parse_mirrors(values: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Mirrors as the command line has them: REGISTRY=URL, or a URL alone for every registry."""
    found: dict[str, tuple[str, ...]] = {}
    for value in values:
        registry, equals, url = value.partition("=")
        if not equals:
            registry, url = "*", value
        if not url.startswith(("http://", "https://")) or not url.partition("://")[2].strip("/"):
            raise AssetError(
                f"{value!r} does not name a registry mirror",
                hint="Write REGISTRY=https://HOST[/PATH], such as docker.io=https://mirror.example.com.",
            )
        found[registry] = (*found.get(registry, ()), url)
    return found


def parse_target(value: str) -> tuple[str, str]:
    """The host and the prefix of where images are pushed to: REGISTRY[/PREFIX]."""
    if "://" in value:
        raise AssetError(f"{value!r} is a URL; a registry is named without one", hint="Use --plain-http for http.")
    host, _, prefix = value.strip("/").partition("/")
    if not host or any(not part for part in prefix.split("/") if prefix):
        raise AssetError(f"{value!r} does not name a registry", hint="Write HOST[:PORT][/PREFIX].")
    if prefix:
        ImageReference.parse(f"{host}/{prefix}/x")
    return host, prefix
