"""Measuring a cluster with nothing else going on."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.probes.step import Watched
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["Measurement"]

_SLACK = 60.0


class Watch(Task):
    """Baselines, if asked for, then the measurement itself."""

    def __init__(self, *, duration: float, baseline: float) -> None:
        self._duration = duration
        self._baseline = baseline

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One after the other."""
        g = FragmentBuilder("probe.watch")
        before: list[NodeHandle] = []
        phases = [("idle", self._baseline, False), ("busy", self._baseline, True)] if self._baseline else []
        for phase, seconds, busy in (*phases, ("run", self._duration, False)):
            step = Watched(phase=phase, seconds=seconds, busy=busy)
            before = [g.add(phase, step, on=ctx.control_node, after=before, timeout=seconds + _SLACK)]
        return g.build()


class Measurement(Module):
    """What users of the cluster experience for a while."""

    def __init__(self, *, duration: float, baseline: float = 0.0) -> None:
        self._duration = duration
        self._baseline = baseline

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One."""
        return (Watch(duration=self._duration, baseline=self._baseline),)
