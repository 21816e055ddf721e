"""Builds a lab bundle: makes what is not in the cache yet, then has it put together. The order of work, no more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kubexm.assets.disk import human_size
from kubexm.errors import KubexmError, LabError, UsageError
from kubexm.lab.bundle.artefacts import Artefact, Entry
from kubexm.lab.bundle.assemble import assemble, bundle_name
from kubexm.lab.bundle.cache import BuildCache
from kubexm.lab.bundle.commands import Commands
from kubexm.lab.bundle.contents import in_order, plan_contents
from kubexm.lab.bundle.gobuild import GoPrograms, go_environment
from kubexm.lab.bundle.progress import Progress, SilentProgress
from kubexm.lab.bundle.toolchain import Missing, Toolchain, machine_arch
from kubexm.lab.places import cache_directory

__all__ = ["BundleBuild", "build"]

_ROOM = 14 * 1024**3
"""What a build of one Kubernetes version from nothing takes on disk."""


def build(
    versions: Iterable[str] = (),
    parts: Iterable[str] = (),
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """A directory in the cache with a bundle for these Kubernetes versions, built now as far as it is not there yet."""
    return BundleBuild(versions, parts, cache=cache, progress=progress).run()


class BundleBuild:
    """One build of one bundle."""

    def __init__(
        self,
        versions: Iterable[str] = (),
        parts: Iterable[str] = (),
        *,
        cache: Path | None = None,
        progress: Progress | None = None,
        mirror: str = "",
        toolchain: Toolchain | None = None,
    ) -> None:
        self.contents = plan_contents(versions, arch=machine_arch(), parts=parts, mirror=mirror)
        self.cache = BuildCache((cache or cache_directory()) / "bundle")
        self.toolchain = toolchain or Toolchain()
        self.progress: Progress = progress or SilentProgress()

    def run(self, *, install: bool = False, keep_going: bool = False, refresh: bool = False) -> Path:
        """Makes what is missing, with `refresh` also what ages, and puts the bundle together."""
        with self.cache.in_use():
            artefacts = self.contents.artefacts()
            entries = self._provide(artefacts, install=install, keep_going=keep_going, refresh=refresh)
            return assemble(self.contents, entries, self.cache.bundles, self.progress.note)

    def provide(self, names: Iterable[str], *, install: bool = False) -> dict[str, Entry]:
        """Makes only these artefacts, and what they need; their files are in each entry's directory."""
        known = {artefact.name: artefact for artefact in self.contents.artefacts()}
        wanted = list(names)
        if strange := [name for name in wanted if name not in known]:
            raise UsageError(f"there is no artefact {strange[0]!r}", hint=f"There are {', '.join(known)}.")
        with self.cache.in_use():
            entries = self._provide(in_order(known[name] for name in wanted), install=install)
        return {name: entries[name] for name in wanted}

    def state(self) -> dict[str, Entry | None]:
        """Every artefact of the bundle, and what the cache has of it."""
        found = _Found(self.cache, self.toolchain)
        return {artefact.name: found.look(artefact) for artefact in self.contents.artefacts()}

    def missing(self) -> list[Missing]:
        """The tools that are not here and would be needed for what is not in the cache."""
        there = self.state()
        tools = [
            tool for artefact in self.contents.artefacts() if there[artefact.name] is None for tool in artefact.tools
        ]
        return self.toolchain.missing(tools)

    def prune(self) -> int:
        """Removes everything from the cache that this bundle does not need; says how many bytes that freed."""
        entries = {name: entry for name, entry in self.state().items() if entry is not None}
        complete = len(entries) == len(self.contents.artefacts())
        return self.cache.prune(entries, bundles={bundle_name(self.contents, entries)} if complete else set())

    def _provide(
        self, artefacts: list[Artefact], *, install: bool, keep_going: bool = False, refresh: bool = False
    ) -> dict[str, Entry]:
        found = _Found(self.cache, self.toolchain, refresh=refresh)
        waiting = [artefact for artefact in artefacts if found.look(artefact) is None]
        impossible = self._impossible(waiting)
        if install and impossible:
            missing = self.toolchain.missing(tool for artefact in waiting for tool in artefact.tools)
            if packages := [package for item in missing for package in item.packages]:
                self.progress.note(f"installing {', '.join(packages)}")
            self.toolchain.install(missing)
            impossible = self._impossible(waiting)
        if impossible and not keep_going:
            raise self._tools_missing(impossible, artefacts, waiting)
        self.progress.planned(len(waiting), len(artefacts))
        self._warn_of_little_room(waiting)
        failures = self._make_all(waiting, found.entries, set(impossible), keep_going=keep_going, refresh=refresh)
        if failures:
            raise LabError("\n".join(error.message for error in failures), hint=failures[0].hint)
        if impossible:
            raise self._tools_missing(impossible, artefacts, [])
        return found.entries

    def _warn_of_little_room(self, waiting: list[Artefact]) -> None:
        if not any(isinstance(artefact, GoPrograms) for artefact in waiting):
            return
        free = shutil.disk_usage(self.cache.root).free
        if free < _ROOM:
            self.progress.note(
                f"only {human_size(free)} are free at {self.cache.root}; a build from nothing takes "
                f"{human_size(_ROOM)}, most of it caches that --prune removes (KUBEXM_CACHE names another place)"
            )

    def _make_all(
        self, waiting: list[Artefact], entries: dict[str, Entry], without: set[str], *, keep_going: bool, refresh: bool
    ) -> list[KubexmError]:
        """Makes one after the other, each with all cores; what cannot be made takes along only what needs it."""
        failures: list[KubexmError] = []
        for number, artefact in enumerate(waiting, start=1):
            if artefact.name in without or any(need.name in without for need in artefact.needs):
                without.add(artefact.name)
                continue
            try:
                entries[artefact.name] = self._make(artefact, entries, number, len(waiting), refresh=refresh)
            except KubexmError as error:
                named = LabError(f"{artefact.name}: {error.message}", hint=error.hint)
                if not keep_going:
                    raise named from error
                without.add(artefact.name)
                failures.append(named)
                self.progress.note(named.message)
        return failures

    def _make(self, artefact: Artefact, entries: Mapping[str, Entry], number: int, of: int, *, refresh: bool) -> Entry:
        self.progress.started(artefact.name, number, of)
        began = time.monotonic()
        tools = self.toolchain.versions(artefact.tools)
        log = self.cache.logs / f"{artefact.name}.log"
        entry, made = self.cache.provide(
            artefact,
            artefact.key(tools, entries),
            needs=entries,
            tools=tools,
            commands=Commands(log=log, environment=go_environment(self.cache.go)),
            say=lambda what: self.progress.doing(artefact.name, what),
            on_wait=lambda: self.progress.note(f"{artefact.name}: another build is making it; waiting for that"),
            afresh=refresh and artefact.ages,
        )
        self.progress.finished(artefact.name, time.monotonic() - began, made=made)
        return entry

    def _impossible(self, waiting: Iterable[Artefact]) -> dict[str, list[Missing]]:
        found = {artefact.name: self.toolchain.missing(artefact.tools) for artefact in waiting}
        return {name: missing for name, missing in found.items() if missing}

    def _tools_missing(
        self, impossible: Mapping[str, list[Missing]], artefacts: list[Artefact], waiting: list[Artefact]
    ) -> LabError:
        missing = {item.tool: item for items in impossible.values() for item in items}
        lines = []
        for item in missing.values():
            names = [name for name, items in impossible.items() if item in items]
            lines.append(f"  {item.reason}; needed for {', '.join(names)}")
        hints = [item.remedy for item in missing.values()]
        installable = sorted({package for item in missing.values() for package in item.packages})
        if installable and self.toolchain.has_apt:
            hints.append(f"`--install` installs {', '.join(installable)} with apt.")
        blocked = set(impossible)
        for artefact in artefacts:
            if any(need.name in blocked for need in artefact.needs):
                blocked.add(artefact.name)
        if possible := [artefact.name for artefact in waiting if artefact.name not in blocked]:
            hints.append(f"`--keep-going` makes the other {len(possible)} now, so that only these are left.")
        hints.append("Without building: `kubexm bundle create` makes a bundle from upstream or a mirror.")
        return LabError("not everything can be made here:\n" + "\n".join(lines), hint="\n".join(hints))


class _Found:
    """What the cache has, found out in the order artefacts need each other."""

    def __init__(self, cache: BuildCache, toolchain: Toolchain, *, refresh: bool = False) -> None:
        self._cache = cache
        self._toolchain = toolchain
        self._refresh = refresh
        self.entries: dict[str, Entry] = {}

    def look(self, artefact: Artefact) -> Entry | None:
        """The artefact, if it is there; what it needs must have been looked for before."""
        if any(need.name not in self.entries for need in artefact.needs) or (self._refresh and artefact.ages):
            return None
        if self._toolchain.missing(artefact.tools):
            entry = self._cache.find_any(artefact)  # made with tools that have gone since: better than nothing
        else:
            key = artefact.key(self._toolchain.versions(artefact.tools), self.entries)
            entry = self._cache.find(artefact, key)
        if entry is not None:
            self.entries[artefact.name] = entry
        return entry
