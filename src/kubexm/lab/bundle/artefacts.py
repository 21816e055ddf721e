"""What every buildable thing has in common, so that the cache and the builder need to know nothing of Go, C or Debian.

An artefact is a value: everything that decides its content is in its fields, in the tools it says it uses and in the
content of the artefacts it needs. Equal inputs are equal keys.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

from kubexm.lab.bundle.commands import Commands

__all__ = ["Artefact", "Entry", "StoredFile", "Workplace", "describe", "digest_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file of a finished artefact, with what is needed to see later that nobody touched it."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A finished artefact in the cache."""

    name: str
    key: str
    directory: Path
    files: tuple[StoredFile, ...]
    seconds: float
    """How long it took to make."""
    tools: tuple[tuple[str, str], ...]

    @property
    def content(self) -> str:
        """A digest of what is in it, whatever it was made from."""
        return digest_of([[file.path, file.sha256] for file in self.files])

    def path(self, name: str) -> Path:
        """Where one of its files is."""
        return self.directory / name

    def sha256(self, name: str) -> str:
        """The sha256 of one of its files."""
        return next(file.sha256 for file in self.files if file.path == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Where an artefact is made: a scratch directory, an output directory, and the entries it needs."""

    scratch: Path
    out: Path
    needs: Mapping[str, Entry]
    commands: Commands
    say: Callable[[str], None]
    """Tells whoever watches what is being done just now."""


@dataclass(frozen=True, kw_only=True)
class Artefact(ABC):
    """A thing that can be made, and what decides its content."""

    name: str

    method: ClassVar[int] = 1
    """Raised when the same recipe starts to be made in another way: nothing made the old way is taken for it."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools it is made with; their versions are part of its key."""
        return ()

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """What it is made from."""
        return ()

    @property
    def ages(self) -> bool:
        """Whether the world decides part of its content, so that making it again later may give something newer."""
        return False

    @abstractmethod
    def make(self, place: Workplace) -> None:
        """Puts its files into `place.out`; the same inputs give the same bytes."""

    @property
    def recipe(self) -> str:
        """A digest of what it is, leaving out with which tools and from what content."""
        return digest_of(describe(self))

    def key(self, tools: Mapping[str, str], needs: Mapping[str, Entry]) -> str:
        """What tells its content apart from every other."""
        return digest_of(
            {
                "recipe": self.recipe,
                "tools": {tool: tools[tool] for tool in self.tools},
                "needs": {need.name: needs[need.name].content for need in self.needs},
            }
        )


def digest_of(value: object) -> str:
    """sha256 over a value's one JSON spelling."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def describe(value: object) -> Any:
    """A recipe as plain data, needs by name only: their content is in the key by itself."""
    if isinstance(value, Artefact):
        inner = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, "method": value.method, **inner}
    return _plain(value)


def _plain(value: object) -> Any:
    if isinstance(value, Artefact):
        return {"artefact": value.name}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot be part of a recipe")
