"""The control plane of binaries."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.binary.tasks import OpenCluster, RunControlPlane
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["BinaryControlPlane"]


class BinaryControlPlane(Module):
    """API servers, controller managers and schedulers under systemd."""

    def is_required(self, ctx: ModuleContext) -> bool:
        """Where the file says so."""
        return ctx.cluster.spec.kubernetes.type == "kubexm"

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Run it, then open it."""
        return (RunControlPlane(), OpenCluster())
