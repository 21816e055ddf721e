"""Image names: parsed once, written one way. Knows nothing of registries' addresses or mirrors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubexm.assets.layout import check_digest
from kubexm.errors import AssetError

__all__ = ["ImageReference"]

_HOST = re.compile(r"(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:)|\[[0-9a-fA-F:]+\])(:\d{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """registry/repository:tag, or @digest, or both; `docker.io/library/` is filled in where it is implied."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """The reference this text is; AssetError says what is wrong with it."""
        rest, _, digest = text.partition("@")
        if digest:
            check_digest(digest)
        host, slash, path = rest.partition("/")
        if not slash or not _HOST.fullmatch(host):
            host, path = "docker.io", rest
        path, _, tag = path.partition(":")
        if host == "docker.io" and "/" not in path:
            path = f"library/{path}"
        if not _REPOSITORY.fullmatch(path) or (tag and not _TAG.fullmatch(tag)):
            raise AssetError(
                f"{text!r} is not an image name", hint="It looks like registry.k8s.io/pause:3.10, in lower case."
            )
        if not tag and not digest:
            tag = "latest"
        return cls(registry=host, repository=path, tag=tag, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"

    @property
    def target(self) -> str:
        """What to ask a registry for: the digest if there is one, else the tag."""
        return self.digest or self.tag
