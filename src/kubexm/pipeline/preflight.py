"""Preflight: are these hosts fit for this cluster? Everything that is not, at once, each with its remedy."""

from __future__ import annotations

from kubexm.components.preflight import Preflight
from kubexm.module import sequence
from kubexm.pipeline.base import Pipeline
from kubexm.plan import ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runtime import PipelineContext

__all__ = ["PreflightPipeline"]


class PreflightPipeline(Pipeline):
    """All checks of all hosts. With `fix`, what is safe to mend is mended."""

    name = "preflight"
    needs_all_hosts = False

    def __init__(self, *, fix: bool = False) -> None:
        self.changes = fix

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. No budgets: a host with one finding is still asked everything else."""
        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(Preflight(fix=self.changes, uid=ctx.cluster_uid)).graph(ctx, name=self.name, policy=policy)
