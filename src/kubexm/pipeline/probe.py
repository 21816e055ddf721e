"""Probe: what do users of this cluster experience? Measured for a while, and changed by nobody here."""

from __future__ import annotations

from kubexm.components.probes.module import Measurement
from kubexm.errors import UsageError
from kubexm.module import sequence
from kubexm.pipeline.base import Pipeline
from kubexm.plan import ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runtime import PipelineContext

__all__ = ["ProbePipeline"]

_LEAST, _MOST = 1.0, 86_400.0


class ProbePipeline(Pipeline):
    """All probes for `duration` seconds; before that for `baseline` seconds idle and again with every core busy.

    It takes no lease: it measures beside whatever else is done to the cluster.
    """

    name = "probe"
    changes = False
    needs_all_hosts = False
    probes = "full"

    def __init__(self, *, duration: float = 60.0, baseline: float = 0.0, probes: str = "full") -> None:
        if not _LEAST <= duration <= _MOST or not 0 <= baseline <= _MOST:
            raise UsageError(f"a cluster can be measured for {_LEAST:g} s to {_MOST:g} s", hint="see --duration")
        self._duration = float(duration)
        self._baseline = float(baseline)
        self.probes = probes

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module."""
        measurement = Measurement(duration=self._duration, baseline=self._baseline)
        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(measurement).graph(ctx, name=self.name, policy=policy)
