"""The network of pods by flannel: applied the moment the API answers, so that nodes are Ready as soon as they join."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import ManifestsApplied, through_api
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
        """One node, through the API."""
        objects = flannel_objects(
            ctx.cluster, image=image(ctx, "flannel"), plugin_image=image(ctx, "flannel-cni-plugin")
        )
        g = FragmentBuilder("flannel.apply")
        step = ManifestsApplied(name="flannel", manifests=yaml_stream(objects))
        g.add("manifests", step, needs=API_READY, **through_api(ctx))
        return g.build()


class Flannel(Module):
    """The network of pods."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (ApplyFlannel(),)
