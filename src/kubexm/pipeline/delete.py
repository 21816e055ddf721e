"""Delete: the hosts of a cluster as they were before it was created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubexm.pipeline.base import Pipeline
from kubexm.pipeline.declaration import Button, Kind, Option

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph
    from kubexm.runtime import PipelineContext

__all__ = ["DeleteCluster"]


class DeleteCluster(Pipeline):
    """Gives all hosts back. Those that cannot be reached are reported, and can be done by deleting again."""

    name = "delete"
    summary = "Delete a cluster and restore its hosts."
    description = (
        "Stop the cluster of the file on all its hosts and restore them to what they were before it was created. "
        "What others changed since is left alone and reported. Asks for the cluster's name first. Run it again for "
        "hosts that could not be reached."
    )
    command = ("delete", "cluster")
    options = (
        Option(
            name="keep_data",
            kind=Kind.FLAG,
            help="Keep etcd's data and the volumes of pods on their hosts.",
            label="keep etcd's data and volumes",
        ),
        Option(
            name="keep_runtime",
            kind=Kind.FLAG,
            help="Keep containerd and its images, for the next cluster.",
            label="keep containerd",
        ),
    )
    takes = ("dry_run", "parallel", "ignore_errors")
    confirms = True
    results_in = "registered"
    button = Button(label="Delete")
    needs_all_hosts = False
    leaves_hosts = True

    def __init__(self, *, keep_data: bool = False, keep_runtime: bool = False) -> None:
        self._keep_data = keep_data
        self._keep_runtime = keep_runtime

    def consequences(self, cluster: str, hosts: str) -> str:
        """What is lost, and what is kept."""
        lost = "the cluster" if self._keep_data else "the cluster and all data in it"
        kept = [
            *(["etcd's data and volumes of pods"] if self._keep_data else []),
            *(["containerd and its images"] if self._keep_runtime else []),
        ]
        return f"This removes {lost} from {hosts}, for good." + (f"\nIt keeps {' and '.join(kept)}." if kept else "")

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One module. Hosts that are missing from the start are no failure; any other failure is one."""
        from kubexm.components.removal import ClusterRemoval, unreached_hosts
        from kubexm.module import sequence
        from kubexm.plan import Budget, FailureMode, FailurePolicy

        missing = unreached_hosts(ctx)
        budgets = (Budget("missing", missing, len(missing)),) if missing else ()
        policy = FailurePolicy(mode=FailureMode.ISOLATE, budgets=budgets)
        removal = ClusterRemoval(keep_data=self._keep_data, keep_runtime=self._keep_runtime)
        return sequence(removal).graph(ctx, name=self.name, policy=policy)
