"""How nodes join the cluster, the same way in both modes: control planes by themselves, others with a token."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.api import through_api
from kubexm.components.identity import HostMarked
from kubexm.components.kubelet import (
    KubeletAdmitted,
    NodeJoined,
    NodeRegistered,
    controllers_work,
    join_token,
    kubelet_running,
    node_servers,
)
from kubexm.components.milestones import (
    API_READY,
    API_SERVING,
    BALANCER_READY,
    HOST_READY,
    IMAGES_PRESENT,
    JOINING_OPEN,
    KUBELET_INSTALLED,
    KUBELET_RUNNING,
    NODE_JOINED,
    RUNTIME_READY,
)
from kubexm.components.nodes.rejoining import NodesListed, still_registered
from kubexm.components.topology import balanced, control_planes, is_initialised, plain_nodes
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import TaskContext
from kubexm.task import FragmentBuilder, NodeHandle, Task

__all__ = ["JoinNodes"]


class JoinNodes(Task):
    """Lets every node join: control planes by themselves, others with a token of this run."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Each as soon as it is ready itself and the API is."""
        g, planes, others = FragmentBuilder("nodes.join"), control_planes(ctx), plain_nodes(ctx)
        # In a new cluster nobody has deleted a node yet.
        restored = []
        if is_initialised(ctx):
            step = still_registered(ctx.cluster, control_plane=True)
            ready = (KUBELET_RUNNING, API_SERVING, API_READY)
            restored = [g.add("restored-control-planes", step, on=planes, needs=ready)]
        registered = g.add(
            "registered",
            NodeRegistered(),
            on=planes,
            after_same_host=restored,
            needs=(KUBELET_RUNNING, API_SERVING, API_READY),
            provides=NODE_JOINED,
            weight=2.0,
        )
        both = [host for host in planes if "worker" in host.roles]
        mark = HostMarked(cluster=ctx.cluster.name, role="worker")
        if both:
            g.add("marked-control-planes", mark, on=both, after_same_host=[registered])
        if others:
            joined = self._others(g, ctx, others)
            g.add("marked", mark, on=others, after_same_host=[joined])
        return g.build()

    def _others(self, g: FragmentBuilder, ctx: TaskContext, hosts: Sequence[Host]) -> NodeHandle:
        """Their kubelets ask the API for a certificate: once there is somebody to sign it."""
        token = join_token(g, ctx)
        work = controllers_work(g, ctx)
        server = node_servers(ctx.cluster)[0]
        admitted = g.add(
            "admitted", KubeletAdmitted(server=server), on=hosts, after=[token], needs=(KUBELET_INSTALLED, JOINING_OPEN)
        )
        restored = []
        if is_initialised(ctx):
            listed = g.add("listed", NodesListed(), needs=API_READY, **through_api(ctx))
            # Before kubelets are started: one that is new to the cluster has not registered yet.
            step = still_registered(ctx.cluster, control_plane=False)
            restored = [g.add("restored", step, on=hosts, after=[listed], needs=(KUBELET_INSTALLED, RUNTIME_READY))]
        started = g.add(
            "kubelet",
            kubelet_running(ctx.cluster),
            on=hosts,
            after=[work],
            after_same_host=[admitted, *restored],
            needs=(HOST_READY, RUNTIME_READY, IMAGES_PRESENT, *((BALANCER_READY,) if balanced(ctx) else ())),
            weight=2.0,
        )
        joined = NodeJoined(server=server)
        return g.add("joined", joined, on=hosts, after_same_host=[started], provides=NODE_JOINED, weight=3.0)
