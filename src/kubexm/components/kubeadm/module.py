"""The control plane that kubeadm lays out."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.kubeadm.tasks import OpenCluster, PrepareControlPlanes, RunControlPlanes
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["KubeadmControlPlane"]


class KubeadmControlPlane(Module):
    """API servers, controller managers and schedulers in static pods, and etcd too if it is stacked."""

    def is_required(self, ctx: ModuleContext) -> bool:
        """Where the file says so."""
        return ctx.cluster.spec.kubernetes.type == "kubeadm"

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Prepare, run, open."""
        return (PrepareControlPlanes(), RunControlPlanes(), OpenCluster())
