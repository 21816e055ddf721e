"""What a pipeline is: one thing a user can ask for, planned as a graph. Reads like a table of contents."""

from __future__ import annotations

from typing import ClassVar

from kubexm.plan import Budget, ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runtime import PipelineContext

__all__ = ["Pipeline", "failure_policy"]


class Pipeline:
    """Plans one graph."""

    name: ClassVar[str]
    changes: bool = True
    """False if it only reads: no lease is taken."""
    needs_assets: bool = False
    """True if it installs: files and images are found, fetched and checked before it is planned."""
    follows_file: bool = False
    """True if it brings the cluster to what the file says: what was edited since it last did is judged first."""
    needs_all_hosts: bool = True
    """False if hosts that cannot be reached are one finding among others."""
    probes: str = "none"
    """What is measured beside it on a running cluster: `none`, `api` (from its first change on) or `full`."""
    leaves_hosts: bool = False
    """True if hosts belong to no cluster afterwards: kubexm's own traces go too, the lease last."""

    def is_required(self, ctx: PipelineContext) -> bool:
        """False if there is nothing to do for this cluster."""
        return True

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """The whole graph, from config and facts alone."""
        raise NotImplementedError


def failure_policy(ctx: PipelineContext) -> FailurePolicy:
    """What the file says about failures: workers have a budget, etcd and control plane have none."""
    execution = ctx.cluster.spec.execution
    expendable, allowed = execution.lost_workers({host.name: host.roles for host in ctx.hosts()})
    return FailurePolicy(
        mode=FailureMode(execution.failure_policy),
        budgets=(Budget("worker", expendable, allowed),) if allowed else (),
    )
