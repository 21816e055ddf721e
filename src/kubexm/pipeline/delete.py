"""Delete: the hosts of a cluster as they were before it was created."""

from __future__ import annotations

from kubexm.components.removal import ClusterRemoval, unreached_hosts
from kubexm.module import sequence
from kubexm.pipeline.base import Pipeline
from kubexm.plan import Budget, ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runtime import PipelineContext

__all__ = ["DeleteCluster"]


class DeleteCluster(Pipeline):
    """Gives all hosts back. Those that cannot be reached are told, and can be done by deleting again."""

    name = "delete"
    needs_all_hosts = False
    leaves_hosts = True

    def __init__(self, *, keep_data: bool = False, keep_runtime: bool = False) -> None:
        self._keep_data = keep_data
        self._keep_runtime = keep_runtime

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. Hosts that are missing from the start are no failure; any other failure is one."""
        missing = unreached_hosts(ctx)
        budgets = (Budget("missing", missing, len(missing)),) if missing else ()
        policy = FailurePolicy(mode=FailureMode.ISOLATE, budgets=budgets)
        removal = ClusterRemoval(keep_data=self._keep_data, keep_runtime=self._keep_runtime)
        return sequence(removal).graph(ctx, name=self.name, policy=policy)
