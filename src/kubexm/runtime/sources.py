"""Local files that steps send to hosts or read, each named in the plan together with its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from kubexm.errors import AssetError

__all__ = ["LocalFile", "verified"]


class LocalFile(NamedTuple):
    """A file of the control machine, as it was when the plan was made."""

    path: str
    sha256: str


def verified(path: str, sha256: str) -> Path:
    """The file, if it still is what was planned; AssetError if it changed or cannot be read. Reads all of it."""
    source = Path(path)
    try:
        with source.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise AssetError(
            f"{source} cannot be read: {error.strerror}", hint="was it moved or removed since planning?"
        ) from error
    if digest != sha256:
        raise AssetError(
            f"{source} changed since this was planned: its sha256 is {digest[:16]}…, {sha256[:16]}… was planned",
            hint="put the planned file back, or plan again: run `create` anew",
        )
    return source
