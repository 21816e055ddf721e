"""The end of a cluster: every host given back, and this machine's part of it."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.removal.tasks import GuardHosts, ReleaseHosts, Wishes, missing_hosts
from kubexm.module import Module
from kubexm.runtime import ModuleContext, PipelineContext
from kubexm.task import Task

__all__ = ["ClusterRemoval", "unreached_hosts"]


class ClusterRemoval(Module):
    """Nothing is touched on any host unless all of them are this cluster's, or nobody's."""

    def __init__(self, *, keep_data: bool = False, keep_runtime: bool = False) -> None:
        self._wishes = Wishes(data=keep_data, runtime=keep_runtime)

    def before(self, ctx: ModuleContext) -> Sequence[Task]:
        """The guard, for all hosts."""
        return (GuardHosts(),)

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Each host by itself."""
        return (ReleaseHosts(self._wishes),)


def unreached_hosts(ctx: PipelineContext) -> tuple[str, ...]:
    """Hosts that could not be reached, while others could: deleting goes on without them."""
    return missing_hosts(ctx.for_module().for_task())
