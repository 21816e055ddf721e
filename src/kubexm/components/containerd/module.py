"""The container runtime of every node."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.containerd.tasks import InstallRuntime, StartRuntime
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Containerd"]


class Containerd(Module):
    """containerd with what it needs, on every node; provides RUNTIME_STARTED and RUNTIME_READY."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """Installing needs nothing; starting waits for it host by host."""
        return (InstallRuntime(), StartRuntime())
