"""How a host was where the cluster's own programs will write, and clearing what they wrote. Must not know Kubernetes.

kubelet, containerd and pods write where nobody asks kubexm first: into data directories, kernel parameters, packet
filters. So these are kept before anything starts, as one thing each: what is there later, and was not then, is theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library, posix
from kubexm.runner.directories import NEVER
from kubexm.runner.sysctl import parameter_path

__all__ = ["Baseline"]


@dataclass(frozen=True, slots=True)
class Baseline(Operations):
    """What was on the host before the cluster came."""

    async def missing(
        self, directories: Iterable[str], parameters: Iterable[str] = (), mount_points: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Those of them whose state was not kept yet."""
        wanted = [("tree", path, path) for path in map(_directory, directories)]
        wanted += [("file", str(posix(path)), path) for path in mount_points]
        wanted += [("sysctl", parameter_path(key), key) for key in parameters]
        tests = [
            f"if ! [ -s {shell(self._entry(kind, name) / 'state')} ]; then echo {shell(shown)}; fi"
            for kind, name, shown in wanted
        ]
        tests.append(f"if ! [ -s {shell(self._entry('network', 'filters') / 'state')} ]; then echo packet filters; fi")
        result = await self._read("\n".join(tests), "look whether it is known how the host was")
        return tuple(line for line in self._checked(result).text.split("\n") if line)

    async def keep(
        self, directories: Iterable[str], parameters: Iterable[str] = (), mount_points: Iterable[str] = ()
    ) -> None:
        """How these are now is kept, unless it was before; and which chains, tables and sets the packet filter has.

        Mount points are directories that are made to be mounted elsewhere, and are removed if they are empty then.
        """
        root = shell(self._root(True))
        calls = [f"kx_tree {root} {shell(path)}" for path in map(_directory, directories)]
        calls += [f"kx_keep {root} {shell(posix(path))}" for path in mount_points]
        keys = [parameter_path(key) for key in parameters]
        calls += [f"kx_parameters {root} {shell(*keys)}"] if keys else []
        calls.append(f"kx_filters {root}")
        script = library("sum") + library("originals") + library("paths") + library("baseline")
        script += "\n".join(f"{call} || kx_die 'cannot keep how this host is'" for call in calls)
        self._checked(await self._change(script, "keep how the host is"))

    async def directories(self) -> tuple[str, ...]:
        """The kept directories that were not cleared yet."""
        script = f'for e in {shell(self._root(True))}/tree/*; do if [ -d "$e" ]; then cat -- "$e/name"; fi; done'
        text = self._checked(await self._read(script, "list kept directories")).text
        return tuple(sorted(line for line in text.split("\n") if line))

    async def clear(self, *, leave: Collection[str] = (), noted: Collection[str] = ()) -> tuple[str, ...]:
        """The kept directories are as they were, mounts below them gone; those at or below `leave` stay as they are.

        Of those in `noted` only files go, and they can be cleared again later. Gives those that were cleared, the
        deepest first.
        """
        wanted = [path for path in await self.directories() if not _is_below(path, leave)]
        if not wanted:
            return ()
        wanted.sort(key=lambda path: (-len(PurePosixPath(path).parts), path))
        calls = []
        for path in wanted:
            words = shell(self._entry("tree", path), _directory(path), *(["noted"] if path in noted else []))
            calls.append(f"kx_clear {words} || kx_die 'cannot clear' {shell(path)}")
        script = library("originals") + library("baseline") + "\n".join(calls)
        result = await self._change(script, f"clear {', '.join(wanted)}", within=1800, long=True)
        hint = "Something still writes there or is mounted: `fuser -vm PATH` on the host names it."
        self._checked(result, hint=hint if "cannot clear" in result.error_text else "")
        return tuple(wanted)

    async def filters(self) -> tuple[str, ...]:
        """The chains (`chain NAME`), tables (`table FAMILY NAME`) and sets (`set NAME`) that were kept."""
        p = shell(self._entry("network", "filters") / "content")
        result = await self._read(f"cat -- {p} 2>/dev/null; :", "read which packet filters there were")
        return tuple(line for line in self._checked(result).text.split("\n") if line)

    async def forget_filters(self) -> None:
        """Drops what was kept of the packet filter."""
        p = shell(self._entry("network", "filters"))
        self._checked(await self._change(f"rm -rf -- {p}", "forget which packet filters there were"))

    def _entry(self, kind: str, name: str) -> PurePosixPath:
        """Where originals.sh keeps a thing of this name."""
        encoded = name.replace("%", "%25").replace("/", "%2F")
        if len(encoded) > 200:
            raise ValueError(f"too long to be kept: {name}")
        return self.state / "originals" / kind / encoded


def _directory(path: str) -> str:
    pure = str(posix(path))
    if pure in NEVER:
        raise ValueError(f"{pure} is never cleared")
    return pure


def _is_below(path: str, others: Collection[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(other) for other in others)
