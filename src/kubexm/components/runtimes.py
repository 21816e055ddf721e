"""The container runtimes there are. Everything that must know of one asks here, by what the file names."""

from __future__ import annotations

from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.container_runtime import ContainerRuntime
from kubexm.components.containerd import CONTAINERD
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext

__all__ = ["DEFAULT_RUNTIME", "RUNTIMES", "NodeRuntime", "runtime_named", "runtime_of"]

RUNTIMES: Final[tuple[ContainerRuntime, ...]] = (CONTAINERD,)
DEFAULT_RUNTIME: Final = RUNTIMES[0].name
"""What cluster.yaml means if it names none."""


def runtime_named(name: str) -> ContainerRuntime:
    """The runtime of this name."""
    return next(runtime for runtime in RUNTIMES if runtime.name == name)


def runtime_of(cluster: Cluster) -> ContainerRuntime:
    """The runtime the file names."""
    return runtime_named(cluster.spec.kubernetes.container_runtime.type)


class NodeRuntime(Module):
    """The container runtime of every node, by the one the file names."""

    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        """What that runtime plans."""
        return runtime_of(ctx.cluster).module().fragment(ctx)
