"""Nodes join; then what they are called and kept free of, and that all are Ready: with this the cluster is up."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import NodeSetting, through_api
from kubexm.components.milestones import CLUSTER_UP, FIRST_NODES_READY, NODE_JOINED
from kubexm.components.nodes.joining import JoinNodes
from kubexm.components.nodes.steps import NodeNetworked, NodesReady, NodesSet
from kubexm.components.topology import nodes, plain_nodes
from kubexm.connector import Host
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["JoinedNodes", "NodeSettings", "SettleNodes", "setting_of"]

_ROLE = "node-role.kubernetes.io/"
_CONTROL_PLANE_TAINT = f"{_ROLE}control-plane:NoSchedule"


class SettleNodes(Task):
    """Brings nodes to what the file says of them, and waits until they are Ready."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Each host by itself until it has its network, then through the API: the first nodes, and all of them."""
        g, hosts, api = FragmentBuilder("nodes.settle"), nodes(ctx), through_api(ctx)
        plugin = ctx.cluster.spec.network.plugin
        first = first_nodes(ctx)
        rest = tuple(host for host in hosts if host not in first)
        early = g.add("first-network", NodeNetworked(plugin=plugin), on=first, needs=NODE_JOINED)
        ready = NodesReady(nodes=_names(first), plugin=plugin)
        g.add("first-ready", ready, after=[early], provides=FIRST_NODES_READY, **api)
        late = [g.add("network", NodeNetworked(plugin=plugin), on=rest, needs=NODE_JOINED)] if rest else []
        settings = NodesSet(nodes=tuple(setting_of(host) for host in hosts))
        settled = g.add("settings", settings, after=[early, *late], **api)
        ready = NodesReady(nodes=_names(hosts), plugin=plugin)
        g.add("ready", ready, after=[settled], provides=CLUSTER_UP, **api)
        return g.build()


def first_nodes(ctx: TaskContext) -> tuple[Host, ...]:
    """As many nodes as CoreDNS has pods, control planes before workers: so long it is worth waiting to be spread."""
    wanted = max(1, ctx.cluster.spec.dns.coredns.replicas)
    chosen = [*(host for host in nodes(ctx) if "controlPlane" in host.roles), *plain_nodes(ctx)][:wanted]
    return tuple(host for host in nodes(ctx) if host in chosen)


def _names(hosts: Sequence[Host]) -> tuple[str, ...]:
    return tuple(host.name for host in hosts)


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


class JoinedNodes(Module):
    """Every node, registered with the API and running."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (JoinNodes(),)


class NodeSettings(Module):
    """Labels, taints and roles of nodes."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One task."""
        return (SettleNodes(),)
