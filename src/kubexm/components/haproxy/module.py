"""The load balancer in front of the API servers, where it is ours."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.haproxy.tasks import BalanceApi
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["LoadBalancer"]


class LoadBalancer(Module):
    """Every node's own way to the API, and the entrances from outside."""

    def is_required(self, ctx: ModuleContext) -> bool:
        """Not where the user has a balancer."""
        return ctx.cluster.spec.control_plane_endpoint.load_balancer == "haproxy"

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (BalanceApi(),)
