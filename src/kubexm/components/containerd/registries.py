"""How containerd reaches registries: one hosts.toml for each, read at every pull, so that no edit restarts anything.

Mirrors come first, in the user's order, then the registry itself. A mirror's path comes before the names of
repositories there. Pure: a login is the name of a secret until a step writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.containerd.config import CERTS
from kubexm.errors import PlanError
from kubexm.redact import SecretRef
from kubexm.runtime import registry_secret

__all__ = ["MARK", "Piece", "RegistryFile", "registry_files"]

MARK = "# Made by kubexm from spec.registry"
"""The first line of each file: what begins otherwise is somebody else's and stays."""

Piece = str | SecretRef
"""Text, or the secret that stands there."""

_HUB, _HUB_ADDRESS = "docker.io", "registry-1.docker.io"
_ALL, _DEFAULT = "*", "_default"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFile:
    """A file below /etc/containerd/certs.d."""

    path: PurePosixPath
    pieces: tuple[Piece, ...]

    @property
    def secret(self) -> bool:
        """True if a login is part of it."""
        return any(isinstance(piece, SecretRef) for piece in self.pieces)


def registry_files(cluster: Cluster) -> tuple[RegistryFile, ...]:
    """The files for every registry the user says something about; what `*` says goes for all others."""
    registry = cluster.spec.registry
    if _ALL in registry.auths:
        raise PlanError(
            "spec.registry.auths: a login for `*` would be sent to every registry there is",
            hint="name the registries it is for",
        )
    named = {*registry.mirrors, *registry.auths, *registry.insecure}
    authorities = (
        RegistryFile(path=_authority_path(name), pieces=(SecretRef(registry_secret(name, "ca")),))
        for name, auth in sorted(registry.auths.items())
        if auth.ca_file
    )
    return (*(_Writer(cluster, name).file() for name in sorted(named)), *authorities)


class _Writer:
    """Writes the hosts.toml of one registry."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._registry = cluster.spec.registry
        self._name = name

    def file(self) -> RegistryFile:
        name, registry = self._name, self._registry
        pieces: list[Piece] = [f"{MARK}\n"]
        urls = [str(url) for url in registry.mirrors.get(name, ())]
        tables: list[Piece] = []
        if name != _ALL:
            urls += [str(url) for url in registry.mirrors.get(_ALL, ())]
            address = _HUB_ADDRESS if name == _HUB else name
            insecure = name in registry.insecure
            # One whose certificate is not checked may as well have none: TLS is tried first, then plain HTTP.
            pieces += [f'server = "{"http" if insecure else "https"}://{address}"\n', *self._authority(name)]
            if insecure:
                tables += self._host(f"https://{address}", name)
        mirrors = [piece for url in dict.fromkeys(urls) for piece in self._mirror(url)]
        pieces += [*mirrors, *tables]
        if name != _ALL and name in registry.auths:
            pieces += ["\n[header]\n", *self._login(name)]
        directory = _DEFAULT if name == _ALL else name
        return RegistryFile(path=CERTS / directory / "hosts.toml", pieces=_joined(pieces))

    def _mirror(self, url: str) -> list[Piece]:
        parts = urlsplit(url)
        prefix = parts.path.strip("/")
        place = f"{parts.scheme}://{parts.netloc}"
        return self._host(f"{place}/v2/{prefix}" if prefix else place, parts.netloc, below=bool(prefix))

    def _host(self, url: str, name: str, *, below: bool = False) -> list[Piece]:
        lines: list[Piece] = [f'\n[host."{url}"]\n', 'capabilities = ["pull", "resolve"]\n']
        if below:
            lines.append("override_path = true\n")
        if name in self._registry.insecure and url.startswith("https://"):
            lines.append("skip_verify = true\n")
        lines += self._authority(name)
        if name in self._registry.auths:
            lines += [f'[host."{url}".header]\n', *self._login(name)]
        return lines

    def _login(self, name: str) -> list[Piece]:
        # Spelled as Go does, so that a token got with it takes its place and does not come beside it.
        return ['Authorization = "Basic ', SecretRef(registry_secret(name, "login")), '"\n']

    def _authority(self, name: str) -> list[Piece]:
        auth = self._registry.auths.get(name)
        return [f'ca = "{_authority_path(name)}"\n'] if auth is not None and auth.ca_file else []


def _authority_path(name: str) -> PurePosixPath:
    """Where the certificate of a registry's own CA is on hosts."""
    return CERTS / name / "kubexm-ca.crt"


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """The same with neighbouring texts made one."""
    result: list[Piece] = []
    for piece in pieces:
        if result and isinstance(piece, str) and isinstance(result[-1], str):
            result[-1] += piece
        else:
            result.append(piece)
    return tuple(result)
