"""What a host must have for this cluster: free ports and kernel modules, its network plugin's among them. Pure."""

from __future__ import annotations

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.needs import (
    API_SERVER,
    ETCD_CLIENT,
    ETCD_PEER,
    KUBELET,
    PortUse,
    is_etcd,
    is_node,
    kubelet_port,
)
from kubexm.components.networks import plugin_of
from kubexm.connector import Host

__all__ = ["modules", "ports"]

_LOCAL = "127.0.0.1"


def ports(cluster: Cluster, host: Host) -> tuple[PortUse, ...]:
    """The ports this host must have free."""
    spec, plugin = cluster.spec, plugin_of(cluster)
    found: list[PortUse] = []
    api = PortUse(
        port=spec.control_plane_endpoint.port,
        user=API_SERVER,
        processes=("kube-apiserver",),
        setting="controlPlaneEndpoint.port",
    )
    if "controlPlane" in host.roles:
        found += [
            api,
            PortUse(port=10257, user="kube-controller-manager", processes=("kube-controller-manager",)),
            PortUse(port=10259, user="kube-scheduler", processes=("kube-scheduler",)),
        ]
    elif spec.control_plane_endpoint.load_balancer == "haproxy" and ("loadbalancer" in host.roles or is_node(host)):
        address = "" if "loadbalancer" in host.roles else _LOCAL
        found.append(
            PortUse(
                port=api.port, user="the load balancer", processes=("haproxy",), address=address, setting=api.setting
            )
        )
    if is_node(host):
        found += [
            PortUse(
                port=kubelet_port(cluster),
                user=KUBELET,
                processes=("kubelet",),
                setting="`port` under kubernetes.kubelet.config",
            ),
            PortUse(port=10248, user="kubelet health", processes=("kubelet",), address=_LOCAL),
            PortUse(port=10256, user="kube-proxy health", processes=("kube-proxy",)),
            PortUse(port=10249, user="kube-proxy metrics", processes=("kube-proxy",), address=_LOCAL),
        ]
        if plugin is not None:
            found += plugin.ports(cluster)
    if is_etcd(cluster, host):
        etcd = spec.etcd
        found += [
            PortUse(port=etcd.client_port, user=ETCD_CLIENT, processes=("etcd",), setting="etcd.clientPort"),
            PortUse(port=etcd.peer_port, user=ETCD_PEER, processes=("etcd",), setting="etcd.peerPort"),
            PortUse(
                port=etcd.metrics_port,
                user="etcd metrics",
                processes=("etcd",),
                address=_LOCAL,
                setting="etcd.metricsPort",
            ),
        ]
    return tuple(found)


def modules(cluster: Cluster, host: Host) -> tuple[str, ...]:
    """The kernel modules this host must have, built in or loadable, and those the user asks for.

    `a|b` means that either will do.
    """
    wanted: list[str] = []
    if is_node(host):
        wanted += ["overlay", "br_netfilter", "nf_conntrack"]
        match cluster.spec.kubernetes.kube_proxy.mode:
            case "ipvs":
                wanted += ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"]
            case "nftables":
                wanted.append("nf_tables")
            case _:
                wanted.append("ip_tables|nf_tables")
        plugin = plugin_of(cluster)
        if plugin is not None:
            wanted += plugin.modules(cluster)
    wanted += [name.replace("-", "_") for name in cluster.spec.system.modules]
    return tuple(dict.fromkeys(wanted))
