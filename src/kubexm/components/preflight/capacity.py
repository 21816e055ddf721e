"""Checks of what a host has: processors, memory, disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.preflight.check import Finding, HostCheck, Share, share_of, size
from kubexm.runtime import StepContext

__all__ = ["CpuEnough", "DiskEnough", "MemoryEnough"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuEnough(HostCheck):
    """The host has at least this many processors."""

    least: int

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Counts those it may use."""
        count = ctx.facts.cpu.count
        if count < self.least:
            yield Finding(
                f"it has {count} CPU{'' if count == 1 else 's'}, and {self.least} are needed",
                "give it more, or lower spec.preflight.minCPU",
            )

    def describe(self) -> str:
        """The state."""
        return f"at least {self.least} CPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEnough(HostCheck):
    """The host has at least this much memory, in bytes."""

    least: int

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Compares with all it has, used or not."""
        total = ctx.facts.memory.total
        if total < self.least:
            yield Finding(
                f"it has {size(total)} of memory, and {size(self.least)} are needed",
                "give it more, or lower spec.preflight.minMemory",
            )

    def describe(self) -> str:
        """The state."""
        return f"at least {size(self.least)} of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEnough(HostCheck):
    """There is at least this much free space, in bytes, wherever the host will keep much."""

    least: int
    paths: tuple[Share, ...]

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at the file systems the paths are on; a host that is in its cluster already is only warned about."""
        small: dict[str, list[str]] = {}
        free = {}
        for path in share_of(self.paths, ctx.host.name):
            filesystem = ctx.facts.filesystem_of(path)
            if filesystem is not None and filesystem.free < self.least:
                small.setdefault(filesystem.mount, []).append(path)
                free[filesystem.mount] = filesystem.free
        for mount, paths in small.items():
            yield Finding(
                f"{mount} has {size(free[mount])} free, and {size(self.least)} are needed for {', '.join(paths)}",
                "free some space, mount a larger disk there, or lower spec.preflight.minDisk",
                warning=ctx.facts.marker is not None,
            )

    def describe(self) -> str:
        """The state."""
        return f"at least {size(self.least)} of disk"
