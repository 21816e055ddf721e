"""What each host is for, and the words for what it needs; which ports and modules that is: required.py.

Pure: from config alone. Must not know network plugins, which say in these words what they need.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.apis.v1alpha1 import Cluster
from kubexm.connector import Host

__all__ = [
    "API_SERVER",
    "ETCD_CLIENT",
    "ETCD_PEER",
    "KUBELET",
    "PortUse",
    "data_paths",
    "is_etcd",
    "is_node",
    "kubelet_port",
    "sysctl",
]

API_SERVER, ETCD_CLIENT, ETCD_PEER, KUBELET = "kube-apiserver", "etcd", "etcd peers", "kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUse:
    """A port some part of the cluster will listen on."""

    port: int
    user: str
    """What will listen, in words."""
    processes: tuple[str, ...] = ()
    """Names of processes that may listen there once the cluster is up; empty: the kernel."""
    protocol: str = "tcp"
    address: str = ""
    """Where it listens; empty: on every address."""
    setting: str = ""
    """The key of cluster.yaml that chooses another port."""


def is_etcd(cluster: Cluster, host: Host) -> bool:
    """True if a member of etcd will run on this host."""
    match cluster.spec.etcd.type:
        case "kubexm":
            return "etcd" in host.roles
        case "kubeadm":
            return "controlPlane" in host.roles
        case _:
            return False


def is_node(host: Host) -> bool:
    """True if this host will be a node of Kubernetes."""
    return not host.roles.isdisjoint(("controlPlane", "worker"))


def kubelet_port(cluster: Cluster) -> int:
    """Where the kubelets will listen."""
    port = cluster.spec.kubernetes.kubelet.config.get("port")
    return port if isinstance(port, int) else 10250


def sysctl(cluster: Cluster) -> dict[str, str]:
    """The kernel parameters without which a node cannot forward the traffic of its pods."""
    families = {network.version for network in cluster.spec.network.pod_cidr}
    values = {"net.bridge.bridge-nf-call-iptables": "1", "net.ipv4.ip_forward": "1"}
    if 6 in families:
        values |= {"net.bridge.bridge-nf-call-ip6tables": "1", "net.ipv6.conf.all.forwarding": "1"}
    return values


def data_paths(cluster: Cluster, host: Host) -> tuple[str, ...]:
    """Where this host will keep much: images, pods, etcd's data."""
    paths: list[str] = []
    if is_node(host):
        paths += [cluster.spec.kubernetes.container_runtime.data_dir, "/var/lib/kubelet"]
    if is_etcd(cluster, host):
        paths.append(cluster.spec.etcd.data_dir)
    return tuple(dict.fromkeys(paths)) or ("/var/lib",)
