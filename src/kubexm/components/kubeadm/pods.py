"""The static pods of a control plane: which files each reads, and how each tells that it is well. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.control_plane import health_ports, read_at_start
from kubexm.components.kubeadm.health import Probe
from kubexm.components.kubeadm.layout import API_SERVER, ETCD
from kubexm.components.kubeadm.manifests import StaticPod
from kubexm.components.topology import control_planes, internal_address, server_url
from kubexm.connector import Host
from kubexm.runtime import TaskContext

__all__ = ["api_probe", "client_urls", "controller_probes", "etcd_probe", "peer_urls", "pods_of"]

_ETCD_READS: Final = (PurePosixPath("/etc/kubernetes/pki/etcd/ca.crt"),)
"""When it starts and never again: it reads certificates that it serves with at every connection."""


def pods_of(cluster: Cluster, *components: str) -> tuple[StaticPod, ...]:
    """These static pods with the files they read when they start."""
    return tuple(
        StaticPod(
            component=component,
            inputs=_ETCD_READS if component == ETCD else read_at_start(cluster, component),
        )
        for component in components
    )


def peer_urls(ctx: TaskContext) -> tuple[tuple[str, str], ...]:
    """Name and peer URL of every member of an etcd in static pods."""
    return _urls(ctx, control_planes(ctx), ctx.cluster.spec.etcd.peer_port)


def client_urls(ctx: TaskContext, hosts: Sequence[Host]) -> tuple[tuple[str, str], ...]:
    """Name and client URL of the members on these hosts."""
    return _urls(ctx, hosts, ctx.cluster.spec.etcd.client_port)


def api_probe(cluster: Cluster) -> Probe:
    """The API server's."""
    return Probe(component=API_SERVER, port=cluster.spec.control_plane_endpoint.port, path="/readyz")


def controller_probes(cluster: Cluster) -> tuple[Probe, ...]:
    """Those of controller manager and scheduler."""
    return tuple(Probe(component=name, port=port, path="/healthz") for name, port in health_ports(cluster).items())


def etcd_probe(cluster: Cluster) -> Probe:
    """That of a member of etcd in a static pod, on the port for metrics."""
    return Probe(component=ETCD, port=cluster.spec.etcd.metrics_port, path="/readyz", tls=False)


def _urls(ctx: TaskContext, hosts: Sequence[Host], port: int) -> tuple[tuple[str, str], ...]:
    return tuple((host.name, server_url(internal_address(ctx, host), port)) for host in hosts)
