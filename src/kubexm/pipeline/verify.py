"""Verify: does this cluster work? What can be seen on its nodes, and what its workloads can do, tried for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import Button, Kind, Option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["VerifyPipeline"]


class VerifyPipeline(Pipeline):
    """Everything that can be seen and, unless told otherwise, tried with pods that are removed afterwards."""

    name = "verify"
    summary = "Verify that a cluster works: nodes, pods, DNS, services, volumes."
    description = (
        "Verify that the cluster works: nodes, control plane, etcd; then pods, DNS, services and volumes, tried on all "
        "nodes in a namespace that is removed afterwards."
    )
    options = (
        Option(
            name="probe",
            kind=Kind.FLAG,
            default=True,
            help="Also try it with pods that are removed afterwards, or only look.",
        ),
    )
    takes = ("dry_run", "only", "skip", "parallel", "ignore_errors")
    button = Button(label="Verify")
    needs_all_hosts = False

    def __init__(self, *, probe: bool = True) -> None:
        self.changes = probe

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. No budgets: a host that cannot be reached is one finding among others."""
        from kubexm.components.verify import Verification
        from kubexm.module import sequence
        from kubexm.plan import FailureMode, FailurePolicy

        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(Verification(alone=True, probe=self.changes)).graph(ctx, name=self.name, policy=policy)
