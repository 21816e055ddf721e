"""What hosts need, by what each of them is for: ports, kernel modules, disk space. Pure: from config alone."""

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
    "modules",
    "ports",
    "sysctl",
]

API_SERVER, ETCD_CLIENT, ETCD_PEER, KUBELET = "kube-apiserver", "etcd", "etcd peers", "kubelet"
_LOCAL = "127.0.0.1"


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


def ports(cluster: Cluster, host: Host) -> tuple[PortUse, ...]:
    """The ports this host must have free."""
    spec = cluster.spec
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
        if spec.network.plugin == "flannel" and spec.network.flannel.backend == "vxlan":
            flannel = spec.network.flannel
            found.append(
                PortUse(port=flannel.port, user="flannel's vxlan", protocol="udp", setting="network.flannel.port")
            )
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
        if cluster.spec.network.plugin == "flannel" and cluster.spec.network.flannel.backend == "vxlan":
            wanted.append("vxlan")
    wanted += [name.replace("-", "_") for name in cluster.spec.system.modules]
    return tuple(dict.fromkeys(wanted))


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
