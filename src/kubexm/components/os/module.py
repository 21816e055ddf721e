"""The two modules of preparing hosts: what comes before everything else, and the operating system itself."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.os.tasks import PrepareHosts, StartFromHosts
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Groundwork", "HostPreparation"]


class Groundwork(Module):
    """How each host was, and the user's own commands: on a host nothing comes before this."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (StartFromHosts(),)


class HostPreparation(Module):
    """The operating system of every host. Provides HOST_READY."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (PrepareHosts(),)
