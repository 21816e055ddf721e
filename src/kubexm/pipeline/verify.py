"""Verify: does this cluster work? What can be seen on its nodes, and what its workloads can do, tried for real."""

from __future__ import annotations

from kubexm.components.verify import Verification
from kubexm.module import sequence
from kubexm.pipeline.base import Pipeline
from kubexm.plan import ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runtime import PipelineContext

__all__ = ["VerifyPipeline"]


class VerifyPipeline(Pipeline):
    """Everything that can be seen and, unless told otherwise, tried with pods that are removed afterwards."""

    name = "verify"
    needs_all_hosts = False

    def __init__(self, *, probe: bool = True) -> None:
        self.changes = probe

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. No budgets: a host that cannot be reached is one finding among others."""
        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(Verification(alone=True, probe=self.changes)).graph(ctx, name=self.name, policy=policy)
