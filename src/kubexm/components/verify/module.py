"""Proof that the cluster works: what can be seen, and what can be tried."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.edits import digest
from kubexm.components.api import RolledOut, Workload, through_api
from kubexm.components.assets import image
from kubexm.components.control_plane import health_ports
from kubexm.components.etcd.external import ExternalEtcdHealthy
from kubexm.components.health import ProgramAnswers
from kubexm.components.networks import NO_PLUGIN, plugin_of
from kubexm.components.topology import LOCALHOST, control_planes, etcd_members, etcd_urls, nodes, server_url
from kubexm.components.verify.probe import ClusterProbed
from kubexm.components.verify.state import (
    ApiServerReady,
    ControlPlanePodsReady,
    EtcdServes,
    HostHere,
    NodesHealthy,
)
from kubexm.module import Module
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["Verification"]


class LookAtCluster(Task):
    """Everything that can be seen without changing anything."""

    def __init__(self, *, patience: float, alone: bool) -> None:
        self._patience = patience
        self._alone = alone

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Nodes that wait for none of each other."""
        g, spec, api = FragmentBuilder("verify.state"), ctx.cluster.spec, through_api(ctx)
        patience = self._patience
        networked = spec.network.plugin != NO_PLUGIN or self._alone
        here = g.add("hosts", HostHere(), on=nodes(ctx))
        # In `create` the files of administrators were just compared; `verify` itself asks with them on every host.
        port = 0 if self._alone else spec.control_plane_endpoint.port
        g.add("api-servers", ApiServerReady(port=port, patience=patience), on=control_planes(ctx))
        if spec.kubernetes.type == "kubeadm":
            pods = ControlPlanePodsReady(pods=_static_pods(ctx), patience=patience)
            g.add("control-plane", pods, **api)
        else:
            for name, port in health_ports(ctx.cluster).items():
                answers = ProgramAnswers(unit=name, path="/healthz", port=port, within=round(patience))
                g.add(name.removeprefix("kube-"), answers, on=control_planes(ctx))
        if spec.etcd.type == "external":
            g.add("etcd", ExternalEtcdHealthy(endpoints=etcd_urls(ctx)), on=control_planes(ctx)[:1])
        else:
            url, pod = server_url(LOCALHOST, spec.etcd.client_port), spec.etcd.type == "kubeadm"
            g.add("etcd", EtcdServes(url=url, pod=pod, patience=patience), on=etcd_members(ctx))
        known = NodesHealthy(
            nodes=tuple(one.name for one in nodes(ctx)),
            network=networked,
            lost_allowed=not self._alone,
            patience=patience,
        )
        g.add("nodes", known, after=[here], **api)
        rolled = RolledOut(name="verify", workloads=_workloads(ctx.cluster, networked=networked), patience=patience)
        g.add("workloads", rolled, **api)
        return g.build()


class TryCluster(Task):
    """Pods that reach each other, names, services and volumes."""

    def __init__(self, *, patience: float, alone: bool) -> None:
        self._patience = patience
        self._alone = alone

    def is_required(self, ctx: TaskContext) -> bool:
        """Not where the user is still to bring the network."""
        return ctx.cluster.spec.network.plugin != NO_PLUGIN or self._alone

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node, which takes away what it brings."""
        g, spec = FragmentBuilder("verify.probe"), ctx.cluster.spec
        here = g.add("hosts", HostHere(), on=nodes(ctx))
        services = spec.network.service_cidr[0]
        step = ClusterProbed(
            nodes=tuple(host.name for host in nodes(ctx)),
            image=image(ctx, "agnhost"),
            dns=str(services[10]),
            name=f"kubernetes.default.svc.{spec.kubernetes.dns_domain}",
            expected=str(services[1]),
            taints=tuple(dict.fromkeys(taint for host in nodes(ctx) for taint in host.taints)),
            storage_class="local-path" if spec.storage.local_path.enabled else "",
            settings="" if self._alone else digest(ctx.cluster),
            traffic=_traffic(ctx.cluster),
            patience=self._patience,
        )
        g.add("workloads", step, after=[here], **through_api(ctx))
        return g.build()


class Verification(Module):
    """Proof that the cluster works.

    In `create` the trial is made only if something changed since the last one; `alone`, as in `verify`, each time.
    """

    def __init__(self, *, alone: bool = False, probe: bool = True) -> None:
        """`alone`: nothing is created or waited for besides. `probe`: whether workloads are tried too."""
        self._alone = alone
        self._probe = probe

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """What can be seen, and beside it what can be tried."""
        looked = LookAtCluster(patience=30.0 if self._alone else 180.0, alone=self._alone)
        tried = TryCluster(patience=60.0 if self._alone else 120.0, alone=self._alone)
        return (looked, tried) if self._probe else (looked,)


def _static_pods(ctx: TaskContext) -> tuple[str, ...]:
    etcd = ["etcd"] if ctx.cluster.spec.etcd.type == "kubeadm" else []
    programs = ["kube-apiserver", *health_ports(ctx.cluster), *etcd]
    return tuple(f"{program}-{host.name}" for host in control_planes(ctx) for program in programs)


def _traffic(cluster: Cluster) -> tuple[str, ...]:
    """The ports packets between pods take from node to node, as users know them."""
    plugin = plugin_of(cluster)
    uses = () if plugin is None else plugin.ports(cluster)
    return tuple(f"{use.user}: {use.protocol.upper()} {use.port}" for use in uses)


def _workloads(cluster: Cluster, *, networked: bool) -> tuple[Workload, ...]:
    spec, plugin = cluster.spec, plugin_of(cluster)
    found = [] if plugin is None else [*plugin.workloads]
    if spec.kubernetes.type == "kubeadm":
        found.append(Workload("DaemonSet", "kube-system", "kube-proxy"))
    if networked:
        found.append(Workload("Deployment", "kube-system", "coredns"))
        if spec.storage.local_path.enabled:
            found.append(Workload("Deployment", "local-path-storage", "local-path-provisioner"))
    return tuple(found)
