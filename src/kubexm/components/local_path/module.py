"""Volumes in a directory of the node a pod runs on."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import ManifestsApplied, through_api
from kubexm.components.assets import image
from kubexm.components.documents import yaml_stream
from kubexm.components.local_path.manifests import local_path_objects
from kubexm.components.milestones import FIRST_NODES_READY
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["ApplyLocalPath", "LocalPath"]


class ApplyLocalPath(Task):
    """Applies the provisioner's objects once there are nodes for its pod, or takes them away where it is not wanted."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node, through the API."""
        g = FragmentBuilder("local-path.apply")
        g.add("manifests", self._step(ctx), needs=FIRST_NODES_READY, **through_api(ctx))
        return g.build()

    def _step(self, ctx: TaskContext) -> ManifestsApplied:
        if not ctx.cluster.spec.storage.local_path.enabled:
            return ManifestsApplied(name="local-path")
        objects = local_path_objects(
            ctx.cluster, image=image(ctx, "local-path-provisioner"), helper_image=image(ctx, "busybox")
        )
        return ManifestsApplied(name="local-path", manifests=yaml_stream(objects))


class LocalPath(Module):
    """Local volumes."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (ApplyLocalPath(),)
