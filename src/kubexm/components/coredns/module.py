"""Names inside the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import ManifestsApplied, through_api
from kubexm.components.assets import image
from kubexm.components.coredns.manifests import coredns_objects
from kubexm.components.documents import yaml_stream
from kubexm.components.milestones import FIRST_NODES_READY
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["ApplyCoreDns", "CoreDns"]


class ApplyCoreDns(Task):
    """Applies CoreDNS's objects once there are nodes for its pods.

    Pods that find no node are tried again ever more seldom, so that coming too early would make them late.
    """

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node, through the API."""
        objects = coredns_objects(ctx.cluster, image=image(ctx, "coredns"))
        g = FragmentBuilder("coredns.apply")
        step = ManifestsApplied(name="coredns", manifests=yaml_stream(objects))
        g.add("manifests", step, needs=FIRST_NODES_READY, **through_api(ctx))
        return g.build()


class CoreDns(Module):
    """Names inside the cluster."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (ApplyCoreDns(),)
