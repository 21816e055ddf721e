"""etcd under systemd, or the user's own. In static pods it is kubeadm's, and none of this is planned."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.etcd.tasks import CheckExternal, FormCluster, KeepCluster, PrepareHosts, ScheduleBackups
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Etcd"]


class Etcd(Module):
    """The store of everything the cluster knows."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Forming or keeping the cluster, and its snapshots; of a foreign one only a look at it."""
        match ctx.cluster.spec.etcd.type:
            case "kubexm":
                return (PrepareHosts(), FormCluster(), KeepCluster(), ScheduleBackups())
            case "external":
                return (CheckExternal(),)
            case _:
                return ()
