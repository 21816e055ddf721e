"""Where finished artefacts are kept: outside any project, keyed by their inputs, safe with several builds at once.

An entry appears whole by one rename. Whoever makes it holds a lock that dies with its process: a second build waits and
takes what the first made, and a killed one leaves only a scratch directory, which the next holder of the lock removes.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kubexm.assets.disk import hash_file, remove_tree, write_errors
from kubexm.assets.locks import FileLock
from kubexm.errors import LabError
from kubexm.lab.bundle.artefacts import Artefact, Entry, StoredFile, Workplace
from kubexm.lab.bundle.commands import Commands

__all__ = ["BuildCache"]

_ENTRY = "entry.json"
_OUT = "out"


class BuildCache:
    """The artefacts made so far, and the caches of the compilers that make them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries = root / "artefacts"
        self.bundles = root / "bundles"
        self.go = root / "go"
        self.apt = root / "apt"
        self.logs = root / "logs"
        self._work = root / "work"
        self._locks = root / "locks"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """For as long as this lasts nobody prunes the cache; any number of builds may use it at once."""
        with self._opened() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with write_errors(self.root):
            self._locks.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._locks / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            yield handle
        finally:
            os.close(handle)

    def find(self, artefact: Artefact, key: str) -> Entry | None:
        """The finished artefact with this key, if it is there and nobody touched it since."""
        return self._load(self.entries / f"{artefact.name}-{key[:16]}", key)

    def find_any(self, artefact: Artefact) -> Entry | None:
        """The newest finished artefact of this recipe, whatever tools made it: for machines without them."""
        found: list[tuple[float, Entry]] = []
        for directory in self.entries.glob(f"{artefact.name}-*"):
            document = _read(directory / _ENTRY)
            if document is None or document.get("recipe") != artefact.recipe:
                continue
            if (entry := self._load(directory, str(document["key"]))) is not None:
                found.append((float(document["finished"]), entry))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def provide(
        self,
        artefact: Artefact,
        key: str,
        *,
        needs: Mapping[str, Entry],
        tools: Mapping[str, str],
        commands: Commands,
        say: Callable[[str], None],
        on_wait: Callable[[], None] = lambda: None,
        afresh: bool = False,
    ) -> tuple[Entry, bool]:
        """The artefact, made now if nobody has made it yet (or `afresh`), and whether it had to be."""
        if not afresh and (entry := self.find(artefact, key)) is not None:
            return entry, False
        lock = FileLock(self._locks / f"{artefact.name}-{key[:16]}.lock")
        if not lock.try_acquire():
            on_wait()
            lock.acquire()
        try:
            if not afresh and (entry := self.find(artefact, key)) is not None:
                return entry, False
            return self._make(artefact, key, needs, tools, commands, say), True
        finally:
            lock.release()

    def _make(
        self,
        artefact: Artefact,
        key: str,
        needs: Mapping[str, Entry],
        tools: Mapping[str, str],
        commands: Commands,
        say: Callable[[str], None],
    ) -> Entry:
        work = self._work / f"{artefact.name}-{key[:16]}"
        target = self.entries / f"{artefact.name}-{key[:16]}"
        remove_tree(work)
        began, used = time.monotonic(), _cpu_seconds()
        try:
            with write_errors(work):
                out, scratch, temporary = work / "entry" / _OUT, work / "scratch", work / "tmp"
                for directory in (out, scratch, temporary):
                    directory.mkdir(parents=True)
                # compilers fill gigabytes of temporary space: here it is known to be there, and goes away with us
                own = replace(commands, environment={**commands.environment, "TMPDIR": str(temporary)})
                artefact.make(Workplace(scratch=scratch, out=out, needs=needs, commands=own, say=say))
                files = _list_files(out)
                if not files:
                    raise LabError(f"making {artefact.name} gave nothing")
                document = {
                    "name": artefact.name,
                    "key": key,
                    "recipe": artefact.recipe,
                    "tools": {tool: tools[tool] for tool in artefact.tools},
                    "needs": {need.name: needs[need.name].key for need in artefact.needs},
                    "seconds": round(time.monotonic() - began, 2),
                    "cpuSeconds": round(_cpu_seconds() - used, 2),
                    "finished": time.time(),
                    "files": [asdict(file) for file in files],
                }
                (work / "entry" / _ENTRY).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
                self.entries.mkdir(parents=True, exist_ok=True)
                remove_tree(target)  # one that was touched, or is to be replaced
                (work / "entry").rename(target)
        finally:
            remove_tree(work)
        entry = self._load(target, key)
        assert entry is not None, "an entry that was just written is readable"
        return entry

    def _load(self, directory: Path, key: str) -> Entry | None:
        document = _read(directory / _ENTRY)
        if document is None or document.get("key") != key:
            return None
        entry = Entry(
            name=document["name"],
            key=key,
            directory=directory / _OUT,
            files=tuple(StoredFile(**file) for file in document["files"]),
            seconds=document["seconds"],
            tools=tuple(sorted(document["tools"].items())),
        )
        return entry if all(_untouched(entry.directory / file.path, file) for file in entry.files) else None

    def prune(self, keep: Mapping[str, Entry], *, bundles: Collection[str]) -> int:
        """Removes other artefacts and bundles than these, Go's caches and leftovers; says how many bytes that freed."""
        kept = {entry.directory.parent.name for entry in keep.values()}
        doomed = [path for path in self.entries.glob("*") if path.name not in kept]
        doomed += [path for path in self.bundles.glob("*") if path.name.removesuffix(".seal.json") not in bundles]
        doomed += [self.go, self._work, self.logs]
        with self._opened() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError("a build is using the cache", hint="Prune it when that is done.") from None
            freed = sum(_disk_use(path) for path in doomed)
            for path in doomed:
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink(missing_ok=True)
        return freed


def _list_files(directory: Path) -> list[StoredFile]:
    files = []
    for path in sorted(directory.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or not path.is_file():
            raise LabError(f"{path} is no plain file: artefacts consist of plain files")
        stat = path.stat()
        size, sha256 = hash_file(path)
        name = path.relative_to(directory).as_posix()
        files.append(StoredFile(path=name, size=size, mtime_ns=stat.st_mtime_ns, sha256=sha256))
    return files


def _untouched(path: Path, file: StoredFile) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (file.size, file.mtime_ns)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in usage)


def _disk_use(path: Path) -> int:
    total = path.stat().st_size if path.is_file() else 0
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total
