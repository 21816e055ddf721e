"""The sealed part of a set: a tar archive of keys, cluster.yaml and state, with an index. Must not write to disk."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

__all__ = ["CLUSTER_FILE", "INDEX", "SECRETS", "STATE", "Contents", "ContentsError", "pack", "unpack"]

INDEX: Final = "index.json"
CLUSTER_FILE: Final = "cluster.yaml"
SECRETS: Final = "secrets/"
STATE: Final = "state/"
_FORMAT: Final = 1


class ContentsError(ValueError):
    """Contents that are not what a set must hold."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What was sealed, by name, and the snapshot it belongs to."""

    files: Mapping[str, bytes]
    snapshot: str
    """sha256 of the snapshot."""
    uid: str


def pack(contents: Contents) -> bytes:
    """One archive, the same bytes for the same contents."""
    index = {
        "format": _FORMAT,
        "snapshot": contents.snapshot,
        "uid": contents.uid,
        "files": {name: sha256(content).hexdigest() for name, content in contents.files.items()},
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in [(INDEX, json.dumps(index, sort_keys=True).encode()), *sorted(contents.files.items())]:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack(archive: bytes) -> Contents:
    """What `pack` packed. ContentsError if anything is missing, added or different."""
    try:
        found = _files(archive)
        index = json.loads(found.pop(INDEX))
        number, listed, snapshot, uid = index["format"], dict(index["files"]), str(index["snapshot"]), str(index["uid"])
    except (tarfile.TarError, KeyError, TypeError, ValueError, EOFError) as error:
        raise ContentsError(f"it is not an archive that kubexm packed ({type(error).__name__})") from None
    if number != _FORMAT:
        raise ContentsError(f"its contents have format {number}, and this version of kubexm reads format {_FORMAT}")
    for name in sorted(listed.keys() | found.keys()):
        if name not in found or name not in listed:
            raise ContentsError(f"{name} is {'missing' if name not in found else 'not listed'}")
        if sha256(found[name]).hexdigest() != listed[name]:
            raise ContentsError(f"{name} is damaged")
    return Contents(found, snapshot, uid)


def _files(archive: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for entry in opened:
            content = opened.extractfile(entry) if entry.isfile() else None
            if content is None or entry.name in found:
                raise tarfile.TarError(entry.name)
            found[entry.name] = content.read()
    return found
