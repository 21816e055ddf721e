"""File trees for images and relocatable programs, taken out of Debian's packages with every library they open.

Paths are those of a Debian with its /bin, /sbin and /lib merged into /usr. Knows nothing of images.
"""

from __future__ import annotations

import fnmatch
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kubexm.errors import LabError
from kubexm.lab.bundle.archives import File, Link, Member
from kubexm.lab.bundle.artefacts import Entry
from kubexm.lab.bundle.commands import Commands
from kubexm.lab.bundle.debian import fetched_packages
from kubexm.lab.bundle.elf import linkage

__all__ = ["MERGED", "Sysroot", "merged", "unpacked"]

MERGED: dict[str, Member] = {name: Link(target=f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")}
"""The links a merged /usr comes with."""


def merged(path: str) -> str:
    """A path as it is where /bin, /sbin and /lib are links into /usr."""
    first = path.split("/", 1)[0]
    return f"usr/{path}" if first in MERGED else path


@contextmanager
def unpacked(entry: Entry, commands: Commands, scratch: Path, only: Iterable[str] = ()) -> Iterator[Sysroot]:
    """The packages of a DebianFiles entry, unpacked for as long as the block lasts."""
    wanted = set(only)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="sysroot-") as name:
        root = Path(name)
        for link in MERGED:
            (root / "usr" / link).mkdir(parents=True)
            (root / link).symlink_to(f"usr/{link}")
        for package in fetched_packages(entry):
            if not wanted or package.name in wanted:
                _extract(entry.path(package.file), root, commands)
        yield Sysroot(root)


def _extract(deb: Path, root: Path, commands: Commands) -> None:
    # not dpkg-deb --extract: it would put a directory where the link to the merged one is
    tar = 'dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --no-same-owner --directory "$2"'
    commands.run(["bash", "-o", "pipefail", "-c", tar, "extract", str(deb), str(root)])


class Sysroot:
    """A tree of unpacked packages, out of which files are picked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def glob(self, pattern: str) -> list[str]:
        """Paths that match; LabError if none does, since a pattern names something that is needed."""
        base, _, last = merged(pattern).rpartition("/")
        directory = self.root / base
        names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
        found = [f"{base}/{name}" for name in names if fnmatch.fnmatchcase(name, last)]
        if not found:
            raise LabError(f"Debian's packages have no {pattern}", hint="The recipe does not fit this Debian release.")
        return found

    def pick(self, paths: Iterable[str]) -> dict[str, Member]:
        """These files (with what links among them lead to) and every library they open, however far down."""
        tree: dict[str, Member] = {}
        waiting = [merged(path) for path in paths]
        while waiting:
            path = waiting.pop()
            if path in tree:
                continue
            place = self.root / path
            if place.is_symlink():
                target = self._inside(path)
                tree[path] = Link(target=os.path.relpath(target, str(PurePosixPath(path).parent)))
                waiting.append(target)
                continue
            if not place.is_file():
                raise LabError(f"Debian's packages have no {path}")
            mode = 0o755 if place.stat().st_mode & 0o111 else 0o644
            tree[path] = File(source=place, mode=mode)
            waiting += self.libraries(path)
        return tree

    def libraries(self, path: str) -> list[str]:
        """The loader and the libraries a file names itself."""
        found = linkage(self.root / path)
        if found is None:
            return []
        named = [merged(found.interpreter.lstrip("/"))] if found.interpreter else []
        return named + [self.library(name, path) for name in found.needed]

    def library(self, name: str, wanted_by: str = "") -> str:
        """Where the library of this name is."""
        for directory in self._library_directories():
            if (self.root / directory / name).exists():
                return f"{directory}/{name}"
        by = f", which {wanted_by} opens" if wanted_by else ""
        raise LabError(f"no package has the library {name}{by}", hint="Name the package that has it in the recipe.")

    def _library_directories(self) -> list[str]:
        lib = self.root / "usr/lib"
        triplets = sorted(path.name for path in lib.iterdir() if path.is_dir() and path.name.endswith("-linux-gnu"))
        return [*(f"usr/lib/{name}" for name in triplets), "usr/lib64", "usr/lib"]

    def _inside(self, path: str) -> str:
        """Where a link leads to, inside the tree, with merged directories resolved."""
        target = str((self.root / path).readlink())
        joined = target if target.startswith("/") else f"/{PurePosixPath(path).parent}/{target}"
        return merged(os.path.normpath(joined).lstrip("/"))
