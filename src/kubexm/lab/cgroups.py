"""Control groups of the lab: a subtree for each host, on version 1, version 2 and mixed machines. Knows no hosts.

On version 1 a host has one directory under each controller; on version 2 one directory in all, with every controller
handed down to it. Everything a host ever starts stays below these, which is how it is found again.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import LabError

__all__ = ["Hierarchy", "Subtree", "hierarchies", "read_hierarchies"]

_ROOT = Path("/sys/fs/cgroup")
_SYSTEMD = _ROOT / "systemd"
_INHERIT = ("cpuset.mems", "cpuset.cpus")  # empty in a new group of version 1, which then takes no process


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A mounted tree of control groups."""

    root: Path
    version: int
    is_systemd: bool = False


def hierarchies() -> tuple[Hierarchy, ...]:
    """The trees this machine has."""
    named = read_hierarchies(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    found = tuple(tree for tree in named if (tree.root / "cgroup.procs").exists())  # another mount may hide one
    if not found:
        raise LabError(
            "This machine has no control groups mounted.", hint="Run `mount -t cgroup2 cgroup2 /sys/fs/cgroup`."
        )
    if not any(tree.is_systemd for tree in found):
        raise LabError(
            "This machine has no control group hierarchy for systemd, which the hosts run.",
            hint=f"Run `mkdir {_SYSTEMD} && mount -t cgroup -o none,name=systemd cgroup {_SYSTEMD}`.",
        )
    return found


def read_hierarchies(mountinfo: str, *, below: Path = _ROOT) -> tuple[Hierarchy, ...]:
    """The trees a mountinfo file names: all of version 1 and, on a mixed machine, the one of version 2 beside them."""
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, mount = before.split(), after.split()
        if len(fields) < 5 or len(mount) < 3 or mount[0] not in ("cgroup", "cgroup2"):
            continue
        mounted = Path(_unescape(fields[4]))
        if mounted == below or below in mounted.parents:
            version = 2 if mount[0] == "cgroup2" else 1
            named = "name=systemd" in mount[2].split(",")
            found[mounted] = Hierarchy(root=mounted, version=version, is_systemd=named or version == 2)
    return tuple(found[path] for path in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtree:
    """The same group, by its path, in every hierarchy."""

    path: str
    trees: tuple[Hierarchy, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(tree.root / self.path for tree in self.trees)

    @property
    def entries(self) -> tuple[Path, ...]:
        """The files a process writes 0 to in order to move into this group."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def child(self, name: str) -> Subtree:
        return Subtree(path=f"{self.path}/{name}", trees=self.trees)

    def siblings(self, prefix: str) -> set[str]:
        """Other groups beside this one, in any hierarchy, whose names start so."""
        found = {path.name for folder in self.folders for path in folder.parent.glob(f"{prefix}*")}
        return found - {self.path.rpartition("/")[2]}

    def make(self) -> None:
        """Make the group everywhere, able to take processes; one that is there is left alone."""
        for tree in self.trees:
            folder = tree.root
            for name in self.path.split("/"):
                if tree.version == 2:
                    _hand_down(folder)
                folder /= name
                folder.mkdir(exist_ok=True)
                if tree.version == 1:
                    _inherit(folder)

    def pids(self) -> set[int]:
        """Every process in this group or below, in any hierarchy."""
        found: set[int] = set()
        for folder in self._all():
            with suppress(OSError):
                found.update(int(pid) for pid in (folder / "cgroup.procs").read_text(encoding="utf-8").split())
        return found

    def kill(self, *, within: float = 30) -> None:
        """End every process in this group or below; returns when none is left."""
        deadline = time.monotonic() + within
        while pids := self.pids() - {0}:
            for folder in self._all():
                with suppress(OSError):  # a frozen process does not die until it is thawed
                    (folder / "freezer.state").write_text("THAWED", encoding="utf-8")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise LabError(f"Processes {_listed(pids)} of the lab cannot be ended.", hint="Try `lab down` again.")
            time.sleep(0.02)

    def remove(self, *, within: float = 30) -> None:
        """Remove the group and all below it, ending what is still in it; returns when it is gone everywhere."""
        deadline = time.monotonic() + within
        while left := [folder for folder in reversed(list(self._all())) if not _removed(folder)]:
            self.kill(within=max(1.0, deadline - time.monotonic()))
            if time.monotonic() > deadline:
                raise LabError(f"The control group {left[0]} cannot be removed.", hint="Try `lab down` again.")
            time.sleep(0.02)

    def memory(self) -> int | None:
        """Bytes of memory charged to the group that are not page cache; None where nobody counts."""
        for folder in self.folders:
            with suppress(OSError):
                stat = dict(
                    line.split() for line in (folder / "memory.stat").read_text(encoding="utf-8").splitlines() if line
                )
                return int(stat.get("total_rss") or stat.get("anon") or 0)
        return None

    def _all(self) -> Iterator[Path]:
        """This group and all below it, parents first."""
        for top in self.folders:
            for folder, _, _ in os.walk(top):
                yield Path(folder)


def _inherit(folder: Path) -> None:
    for name in _INHERIT:
        file = folder / name
        if file.exists() and not file.read_text(encoding="utf-8").strip():
            file.write_text((folder.parent / name).read_text(encoding="utf-8"), encoding="utf-8")


def _hand_down(folder: Path) -> None:
    """Let the groups below `folder` use every controller that it has itself."""
    has = _controllers(folder / "cgroup.controllers")
    missing = [name for name in has if name not in _controllers(folder / "cgroup.subtree_control")]
    for name in missing:
        with suppress(OSError):  # some cannot be handed down (real-time processes in the root group, for one)
            (folder / "cgroup.subtree_control").write_text(f"+{name}", encoding="utf-8")


def _controllers(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _listed(pids: Iterable[int]) -> str:
    return ", ".join(str(pid) for pid in sorted(pids)[:10])


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
