"""The kubelet: installed on every node, the same way in both modes. Who starts it is not decided here."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.kubelet.tasks import InstallKubelet
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Kubelet"]


class Kubelet(Module):
    """The kubelet of every node, ready to start."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (InstallKubelet(),)
