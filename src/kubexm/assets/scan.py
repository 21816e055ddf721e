"""Holds what a bundle contains against what its manifest says, byte for byte, and goes on after each fault it finds.

One pass serves both verifying and extracting: a sink, where there is one, receives each file as it is checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from kubexm.assets.archive import FRAME, stream_length
from kubexm.assets.disk import CHUNK, hash_file, human_size
from kubexm.assets.findings import Finding, Kind
from kubexm.assets.layout import META, problem_with_path
from kubexm.assets.manifest import Entry, Manifest
from kubexm.assets.tarball import BLOCK, END, member_length, parse_header
from kubexm.assets.unarchive import FrameDamaged, PackedBundle

__all__ = ["Sink", "scan_directory", "scan_packed"]

Sink = Callable[[Entry], AbstractContextManager[BinaryIO]]

_SPARE = 64 * 1024 * 1024  # how far beyond the manifest's size an archive is read, to name what is in it


def scan_directory(directory: Path, manifest: Manifest) -> Iterator[Finding]:
    """Every difference between a bundle directory and its manifest."""
    wanted = {entry.path: entry for entry in manifest.entries()}
    found: list[str] = []
    for path, mode in _walk(directory, ""):
        if not stat.S_ISREG(mode):
            yield Finding(kind=Kind.REFUSED, path=path, detail=f"is {_mode_name(mode)}; only plain files belong here")
            wanted.pop(path, None)
        elif path in wanted:
            found.append(path)
        elif path not in META:
            yield Finding(kind=Kind.EXTRA, path=path, detail="is not in the manifest")
    for path in wanted.keys() - set(found):
        yield Finding(kind=Kind.MISSING, path=path, detail="is missing")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        checks = pool.map(lambda path: _check_file(directory / path, wanted[path]), sorted(found))
        yield from (finding for finding in checks if finding is not None)


def _walk(directory: Path, prefix: str) -> Iterator[tuple[str, int]]:
    for item in sorted(os.scandir(directory), key=lambda item: item.name):
        mode = item.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(Path(item.path), f"{prefix}{item.name}/")
        else:
            yield f"{prefix}{item.name}", mode


def _mode_name(mode: int) -> str:
    names = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in names if test(mode)), "a device")


def _check_file(path: Path, entry: Entry) -> Finding | None:
    try:
        size = path.stat().st_size
        if size != entry.size:
            return _wrong_size(entry, size)
        _, sha256 = hash_file(path)
    except OSError as error:
        return Finding(kind=Kind.DAMAGED, path=entry.path, detail=f"cannot be read: {error.strerror}")
    return None if sha256 == entry.sha256 else _wrong_hash(entry, sha256)


def _wrong_size(entry: Entry, size: int) -> Finding:
    return Finding(kind=Kind.DAMAGED, path=entry.path, detail=f"has {size} bytes instead of {entry.size}")


def _wrong_hash(entry: Entry, sha256: str) -> Finding:
    detail = f"is damaged: its sha256 is {sha256} instead of {entry.sha256}"
    return Finding(kind=Kind.DAMAGED, path=entry.path, detail=detail)


class _PackedScan:
    """One pass over a packed bundle's tar stream."""

    def __init__(self, packed: PackedBundle, manifest: Manifest, sink: Sink | None) -> None:
        self._stream = packed.reader()
        self._left = {entry.path: entry for entry in sorted(manifest.entries(), key=lambda entry: entry.path)}
        self._all = dict(self._left)
        self._sink = sink
        self._at = 0
        self._limit = stream_length(self._all.values()) + _SPARE

    def run(self) -> Iterator[Finding]:
        while self._at < self._limit:
            try:
                block = self._stream.read(self._at, BLOCK)
            except FrameDamaged as error:
                yield from self._lost(error)
                continue
            if len(block) < BLOCK or not any(block):
                yield from self._end()
                break
            yield from self._member(block)
        for path in self._left:
            yield Finding(kind=Kind.MISSING, path=path, detail="is missing")

    def _end(self) -> Iterator[Finding]:
        with contextlib.suppress(FrameDamaged):  # found and named before we came here
            if self._stream.read(self._at, len(END) + 1) != END:
                yield Finding(kind=Kind.DAMAGED, path="the end of the archive", detail="is not as kubexm writes it")

    def _member(self, block: bytes) -> Iterator[Finding]:
        member = parse_header(block)
        if member is None:
            entry = self._expected()
            where = entry.path if entry else "the end"
            yield Finding(kind=Kind.DAMAGED, path=where, detail="its header in the archive is damaged")
            if entry is None:
                self._at = self._limit
            else:
                self._skip(entry)
            return
        start, self._at = self._at + BLOCK, self._at + member_length(member.size)
        shown = repr(member.name)[1:-1]
        problem = problem_with_path(member.name.rstrip("/"))
        if member.kind == "a directory" and not problem:
            return
        if member.kind or problem:
            detail = f"is {member.kind}" if member.kind else f"may not be in a bundle: {problem}"
            yield Finding(kind=Kind.REFUSED, path=shown, detail=f"{detail}; refused")
            self._left.pop(member.name, None)
        elif member.name not in self._all:
            yield Finding(kind=Kind.EXTRA, path=shown, detail="is not in the manifest")
        elif member.name not in self._left:
            yield Finding(kind=Kind.REFUSED, path=shown, detail="is there twice; refused")
        else:
            entry = self._left.pop(member.name)
            yield from self._content(entry, start) if member.size == entry.size else [_wrong_size(entry, member.size)]

    def _content(self, entry: Entry, start: int) -> Iterator[Finding]:
        digest = hashlib.sha256()
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(self._sink(entry)) if self._sink else None
            for offset in range(start, start + entry.size, CHUNK):
                length = min(CHUNK, start + entry.size - offset)
                try:
                    chunk = self._stream.read(offset, length)
                except FrameDamaged as error:
                    yield Finding(kind=Kind.DAMAGED, path=entry.path, detail=f"cannot be read: {error.message}")
                    return
                if len(chunk) != length:
                    yield Finding(kind=Kind.CUT_SHORT, path=entry.path, detail="ends early: the archive is over")
                    return
                digest.update(chunk)
                if out is not None:
                    out.write(chunk)
            if digest.hexdigest() != entry.sha256:
                yield _wrong_hash(entry, digest.hexdigest())

    def _lost(self, error: FrameDamaged) -> Iterator[Finding]:
        """The header at this place is in a damaged frame: what should be here is lost, what follows may not be."""
        entry = self._expected()
        if entry is None:
            yield Finding(kind=Kind.DAMAGED, path="the end of the archive", detail=error.message)
            self._at = self._limit
            return
        yield Finding(kind=Kind.DAMAGED, path=entry.path, detail=f"cannot be read: {error.message}")
        self._skip(entry)

    def _expected(self) -> Entry | None:
        return next(iter(self._left.values()), None)

    def _skip(self, entry: Entry) -> None:
        del self._left[entry.path]
        self._at += member_length(entry.size)


def scan_packed(packed: PackedBundle, manifest: Manifest, sink: Sink | None = None) -> Iterator[Finding]:
    """Every difference between a packed bundle and its manifest; with a sink, its files go there as they are read."""
    entries = list(manifest.entries())
    expected = stream_length(entries)
    if packed.pieces != -(-expected // FRAME):
        held = human_size(packed.pieces * FRAME)
        detail = f"holds up to {held} where the manifest describes {human_size(expected)}"
        yield Finding(kind=Kind.EXTRA, path=str(packed.path), detail=detail)
        if sink is not None:
            return  # nobody unpacks more than was announced
    yield from _PackedScan(packed, manifest, sink).run()
