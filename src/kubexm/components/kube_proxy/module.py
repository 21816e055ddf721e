"""kube-proxy as a module."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.kube_proxy.tasks import ApplyKubeProxy, RunKubeProxy
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["KubeProxy"]


class KubeProxy(Module):
    """What makes services reachable."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One of the two, by the way Kubernetes is run."""
        return (ApplyKubeProxy(), RunKubeProxy())
