"""What nodes are called and kept free of, and that all of them are Ready: with this the cluster is up."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import NodeSetting, api_host
from kubexm.components.milestones import CLUSTER_UP, NODE_JOINED
from kubexm.components.nodes.steps import NodeNetworked, NodesReady, NodesSet
from kubexm.components.topology import nodes
from kubexm.connector import Host
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["NodeSettings", "SettleNodes", "setting_of"]

_ROLE = "node-role.kubernetes.io/"
_CONTROL_PLANE_TAINT = f"{_ROLE}control-plane:NoSchedule"


class SettleNodes(Task):
    """Brings nodes to what the file says of them, and waits until they are Ready."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Each host by itself until it has its network, then all of them through the API."""
        g, hosts = FragmentBuilder("nodes.settle"), nodes(ctx)
        network = ctx.cluster.spec.network.plugin != "none"
        up = g.add("network", NodeNetworked(network=network), on=hosts, needs=NODE_JOINED)
        settings = tuple(setting_of(host) for host in hosts)
        settled = g.add("settings", NodesSet(nodes=settings), on=api_host(ctx), after=[up])
        ready = NodesReady(nodes=tuple(host.name for host in hosts), network=network)
        g.add("ready", ready, on=api_host(ctx), after=[settled], provides=CLUSTER_UP)
        return g.build()


def setting_of(host: Host) -> NodeSetting:
    """Labels and taints of a host: its own, and those of its roles."""
    labels = dict(host.labels)
    taints = list(host.taints)
    if "controlPlane" in host.roles:
        labels[f"{_ROLE}control-plane"] = ""
    if "worker" in host.roles:
        labels[f"{_ROLE}worker"] = ""
    else:
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
        taints.append(_CONTROL_PLANE_TAINT)
    return NodeSetting(name=host.name, labels=tuple(sorted(labels.items())), taints=tuple(dict.fromkeys(taints)))


class NodeSettings(Module):
    """Labels, taints and roles of nodes."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (SettleNodes(),)
