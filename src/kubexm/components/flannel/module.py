"""The network of pods by flannel: applied the moment the API answers, so that nodes are Ready as soon as they join."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import ManifestsApplied, api_host
from kubexm.components.assets import image
from kubexm.components.documents import yaml_stream
from kubexm.components.flannel.manifests import flannel_objects
from kubexm.components.milestones import API_READY
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["ApplyFlannel", "Flannel"]


class ApplyFlannel(Task):
    """Applies flannel's objects."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node, on one control plane."""
        objects = flannel_objects(
            ctx.cluster, image=image(ctx, "flannel"), plugin_image=image(ctx, "flannel-cni-plugin")
        )
        g = FragmentBuilder("flannel.apply")
        step = ManifestsApplied(name="flannel", manifests=yaml_stream(objects))
        g.add("manifests", step, on=api_host(ctx), needs=API_READY)
        return g.build()


class Flannel(Module):
    """The network of pods."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (ApplyFlannel(),)
