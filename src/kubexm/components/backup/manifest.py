"""The manifest of a backup set: what it was taken from, and what its parts must be. Plain data, no secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any, Final

__all__ = ["FORMAT", "MANIFEST", "SEALED", "SNAPSHOT", "Manifest", "ManifestError", "Part", "set_name"]

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SNAPSHOT: Final = "snapshot.db"
SEALED: Final = "secrets.age"
MOST_BYTES: Final = 4 * 2**20
_HEX: Final = re.compile("[0-9a-f]{64}")


class ManifestError(ValueError):
    """A manifest that cannot be used; says why."""


def set_name(cluster: str, run: str) -> str:
    """The name of the set that a run writes; sorts by time within a cluster."""
    return f"{cluster}-{run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of a set."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that is known about a set without opening it."""

    cluster: str
    uid: str
    run: str
    taken: str
    """When the snapshot was taken: UTC, ISO 8601."""
    kubexm: str
    kubernetes: str
    etcd: str
    """Version of the member that the snapshot was taken from."""
    member: str
    """Its name, or its URL if it has none."""
    members: tuple[Mapping[str, Any], ...]
    revision: int
    hash: int
    total_keys: int
    ca_fingerprint: str
    encryption_keys: tuple[str, ...]
    """Ids of the keys that Secrets are encrypted with at rest."""
    recipients: tuple[str, ...]
    """Public keys that the sealed part is sealed for; empty if there is none."""
    parts: Mapping[str, Part]

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts.values())

    def render(self) -> bytes:
        """As it is written; the same manifest is always the same bytes."""
        body = {"format": FORMAT, **asdict(self)}
        return _text({**body, "digest": _digest(body)})

    @classmethod
    def parse(cls, content: bytes) -> Manifest:
        """Reads it back. ManifestError if it is damaged, incomplete, or of a newer version."""
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            raise ManifestError("it is not valid JSON: damaged or truncated") from None
        number = data.get("format") if isinstance(data, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            raise ManifestError("it has no format number: it is not the manifest of a backup set")
        if number != FORMAT:
            age, writer = "a newer" if number > FORMAT else "an older", str(data.get("kubexm", "unknown"))[:40]
            raise ManifestError(
                f"it has format {number}, written by {age} version of kubexm ({writer}); this version reads "
                f"format {FORMAT}"
            )
        given = data.pop("digest", None)
        if given != _digest(data):
            raise ManifestError("its contents do not match its digest: it was damaged or edited")
        del data["format"]
        try:
            found = cls._of(data)
        except (TypeError, KeyError, ValueError) as error:
            raise ManifestError(f"it is incomplete or has values of the wrong type: {error}") from None
        if found.render() != content:
            raise ManifestError("it is not written the way kubexm writes it: it was edited")
        return found

    @classmethod
    def _of(cls, data: dict[str, Any]) -> Manifest:
        parts = {str(name): _part(str(name), part) for name, part in data.pop("parts").items()}
        for name in parts:
            if name not in (SNAPSHOT, SEALED):
                raise ValueError(f"unknown part {name[:40]!r}")
        if SNAPSHOT not in parts:
            raise ValueError(f"{SNAPSHOT} is not listed")
        several = ("members", "encryption_keys", "recipients")
        lists: dict[str, Any] = {name: tuple(data.pop(name)) for name in several}
        for each in fields(cls):
            if each.name in data and not isinstance(data[each.name], int if each.type == "int" else str):
                raise TypeError(each.name)
        found = cls(**data, **lists, parts=parts)
        if bool(found.recipients) != (SEALED in parts):
            raise ValueError("recipients and the sealed part do not go together")
        return found


def _part(name: str, data: Mapping[str, Any]) -> Part:
    size, digest = data["size"], data["sha256"]
    if type(size) is not int or size < 0 or not isinstance(digest, str) or _HEX.fullmatch(digest) is None:
        raise ValueError(f"size or sha256 of {name[:40]}")
    return Part(size=size, sha256=digest)


def _text(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _digest(data: Mapping[str, Any]) -> str:
    return sha256(_text(data)).hexdigest()
