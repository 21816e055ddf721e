"""Small artefacts that cost nothing to make, and tools that need not be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kubexm.assets.disk import hash_file
from kubexm.lab.bundle.artefacts import Artefact, Entry, StoredFile, Workplace
from kubexm.lab.bundle.toolchain import Missing, Toolchain


@dataclass(frozen=True, kw_only=True)
class Note(Artefact):
    """A file with a text, and the texts of what it needs after it."""

    text: str
    sources: tuple[Artefact, ...] = ()
    uses: tuple[str, ...] = ()
    on_make: Callable[[Workplace], None] | None = field(default=None, compare=False)

    @property
    def tools(self) -> tuple[str, ...]:
        return self.uses

    @property
    def needs(self) -> tuple[Artefact, ...]:
        return self.sources

    @property
    def recipe(self) -> str:
        return f"{self.name} {self.text} {[source.name for source in self.sources]}"

    def make(self, place: Workplace) -> None:
        if self.on_make is not None:
            self.on_make(place)
        texts = [self.text, *((place.needs[source.name].path("note")).read_text() for source in self.sources)]
        (place.out / "note").write_text("\n".join(texts))


class Tools(Toolchain):
    """Tools that are here because a test says so."""

    def __init__(self, **versions: str | Missing) -> None:
        super().__init__()
        self.given = versions
        self.installed: list[str] = []

    def look(self, tool: str) -> str | Missing:
        return self.given.get(tool, "1")

    def install(self, missing: Iterable[Missing]) -> None:
        self.installed += [tool for tool, found in self.given.items() if isinstance(found, Missing)]
        self.given = dict.fromkeys(self.given, "1")


def entry_with(directory: Path, **files: bytes) -> Entry:
    """A finished artefact that holds these files."""
    directory.mkdir(parents=True, exist_ok=True)
    stored = []
    for name, content in sorted(files.items()):
        path = directory / name
        path.write_bytes(content)
        size, sha256 = hash_file(path)
        stored.append(StoredFile(path=name, size=size, mtime_ns=path.stat().st_mtime_ns, sha256=sha256))
    return Entry(name=directory.name, key="k", directory=directory, files=tuple(stored), seconds=0, tools=())
