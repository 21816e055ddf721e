"""Where the files of an archive or an image layer come from, as data: written here, another artefact's, or Debian's.

Knows nothing of archive formats.
"""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kubexm.errors import LabError
from kubexm.lab.bundle.archives import Directory, File, Link, Member
from kubexm.lab.bundle.artefacts import Artefact, Workplace
from kubexm.lab.bundle.rootfs import MERGED, unpacked

__all__ = ["Certificates", "Debian", "Empty", "Merged", "Part", "Static", "Symlink", "Taken", "Text", "gathered"]


@dataclass(frozen=True, kw_only=True)
class Part(ABC):
    """Some of the files of a tree."""

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """The artefacts it takes files from."""
        return ()

    @abstractmethod
    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """Its files; what they are read from stays there until the stack is closed."""


@dataclass(frozen=True, kw_only=True)
class Text(Part):
    """A small file, its content written here."""

    path: str
    content: str
    mode: int = 0o644

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The one file."""
        return {self.path: File(source=self.content.encode(), mode=self.mode)}


@dataclass(frozen=True, kw_only=True)
class Empty(Part):
    """A directory with nothing in it."""

    path: str
    mode: int = 0o755

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The one directory."""
        return {self.path: Directory(mode=self.mode)}


@dataclass(frozen=True, kw_only=True)
class Symlink(Part):
    """A symbolic link."""

    path: str
    target: str

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The one link."""
        return {self.path: Link(target=self.target)}


@dataclass(frozen=True, kw_only=True)
class Merged(Part):
    """The links that make /bin, /sbin and /lib part of /usr."""

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The links."""
        return dict(MERGED)


@dataclass(frozen=True, kw_only=True)
class Taken(Part):
    """A file of another artefact."""

    path: str
    artefact: Artefact
    file: str
    mode: int = 0o755
    capability: bytes = b""

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """The artefact."""
        return (self.artefact,)

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The one file."""
        source = place.needs[self.artefact.name].path(self.file)
        return {self.path: File(source=source, mode=self.mode, capability=self.capability)}


@dataclass(frozen=True, kw_only=True)
class Debian(Part):
    """Files out of Debian's packages, by pattern, with every library they open."""

    packages: Artefact
    files: tuple[str, ...]
    moved: tuple[tuple[str, str], ...] = ()
    """(path in Debian, path here) of single files that go elsewhere; their libraries do not."""

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """The packages."""
        return (self.packages,)

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The files, with what links among them lead to."""
        root = stack.enter_context(unpacked(place.needs[self.packages.name], place.commands, place.scratch))
        tree = root.pick(path for pattern in self.files for path in root.glob(pattern))
        for old, new in self.moved:
            tree[new] = tree.pop(old)
        return tree


@dataclass(frozen=True, kw_only=True)
class Static(Part):
    """Files out of one Debian package that open no libraries."""

    packages: Artefact
    package: str
    files: tuple[tuple[str, str], ...]
    """(path in Debian, path here)."""

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """The packages."""
        return (self.packages,)

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The files."""
        entry = place.needs[self.packages.name]
        root = stack.enter_context(unpacked(entry, place.commands, place.scratch, only=[self.package]))
        tree: dict[str, Member] = {}
        for old, new in self.files:
            (found,) = root.glob(old)
            if root.libraries(found):
                raise LabError(f"{old} of Debian's {self.package} is not static")
            tree[new] = File(source=root.root / found, mode=stat.S_IMODE((root.root / found).stat().st_mode))
        return tree


@dataclass(frozen=True, kw_only=True)
class Certificates(Part):
    """The public certificate authorities, as Debian ships them, in one file."""

    packages: Artefact
    path: str

    @property
    def needs(self) -> tuple[Artefact, ...]:
        """The packages."""
        return (self.packages,)

    def members(self, place: Workplace, stack: ExitStack) -> dict[str, Member]:
        """The one file."""
        entry = place.needs[self.packages.name]
        root = stack.enter_context(unpacked(entry, place.commands, place.scratch, only=["ca-certificates"]))
        found = root.glob("usr/share/ca-certificates/mozilla/*.crt")
        text = b"".join((root.root / path).read_bytes().rstrip() + b"\n" for path in found)
        return {self.path: File(source=text, mode=0o644)}


@contextmanager
def gathered(parts: Iterable[Part], place: Workplace) -> Iterator[dict[str, Member]]:
    """All parts in one tree; two that want the same path are a mistake in the recipe."""
    with ExitStack() as stack:
        tree: dict[str, Member] = {}
        for part in parts:
            for path, member in part.members(place, stack).items():
                if tree.setdefault(path, member) != member:
                    raise LabError(f"two parts of a recipe want {path}")
        yield tree
