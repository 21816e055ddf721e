"""Preflight: do these hosts meet the requirements of this cluster? All findings at once, each with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import Button, Kind, Option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["PreflightPipeline"]


class PreflightPipeline(Pipeline):
    """All checks of all hosts. With `fix`, what can be fixed safely is."""

    name = "preflight"
    summary = "Check that hosts meet the requirements. Read-only."
    description = (
        "Check that the hosts meet the requirements of the cluster: all findings at once, each with its remedy. "
        "Changes nothing unless --fix is given."
    )
    section = "Hosts"
    options = (Option(name="fix", kind=Kind.FLAG, help="Fix what can be fixed safely."),)
    takes = ("dry_run", "only", "skip", "parallel", "ignore_errors")
    button = Button(label="Preflight")
    needs_all_hosts = False

    def __init__(self, *, fix: bool = False) -> None:
        self.changes = fix

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. No budgets: a host with one finding is still asked everything else."""
        from kubexm.components.preflight import Preflight
        from kubexm.module import sequence
        from kubexm.plan import FailureMode, FailurePolicy

        policy = FailurePolicy(mode=FailureMode.ISOLATE)
        return sequence(Preflight(fix=self.changes, uid=ctx.cluster_uid)).graph(ctx, name=self.name, policy=policy)
