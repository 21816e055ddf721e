"""Removes versions of programs that nothing refers to any more, once everything runs."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.assets import ProgramsPruned
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["Programs", "PrunePrograms"]


class PrunePrograms(Task):
    """Prunes staged programs on every host."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node; what this cluster uses stays, active or not."""
        hosts, g = ctx.hosts(), FragmentBuilder("programs.prune")
        arches = {ctx.facts(host).arch for host in hosts}
        used = {f"{name}/{version}" for arch in arches for name, version in ctx.assets.programs(arch)}
        g.add("unused", ProgramsPruned(keep=tuple(sorted(used))), on=hosts)
        return g.build()


class Programs(Module):
    """Staged programs."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (PrunePrograms(),)
