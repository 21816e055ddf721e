"""Where the cluster's own programs write on a host, besides what kubexm puts there. Pure: from config alone.

Kept before anything starts, so that whatever is there later, and was not then, is known to be the cluster's.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components import needs
from kubexm.components.networks import plugins_possible
from kubexm.components.runtimes import runtime_of
from kubexm.connector import Host
from kubexm.runner.directories import NEVER

__all__ = ["directories", "mount_points", "parameters"]

_NODE: Final = (
    "/etc/cni",
    "/etc/cni/net.d",
    "/etc/kubernetes",
    "/opt/cni",
    "/opt/cni/bin",
    "/run/cdi",
    "/run/kubernetes",
    "/run/netns",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/kubernetes",
    "/var/log/pods",
)
_ETCD: Final = ("/etc/etcd",)
_ALL: Final = ("/opt/kubexm",)

_MOUNTED: Final = (
    "/etc/ca-certificates",
    "/etc/pki",
    "/lib/modules",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
)
"""Pods mount these from the node, and the kubelet makes what is not there; they belong to the system all the same."""

_KUBE_PROXY: Final = (
    "net.ipv4.conf.all.route_localnet",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_be_liberal",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
)
_IPVS: Final = (
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.vs.conn_reuse_mode",
    "net.ipv4.vs.conntrack",
    "net.ipv4.vs.expire_nodest_conn",
    "net.ipv4.vs.expire_quiescent_template",
)


def directories(cluster: Cluster, host: Host) -> tuple[str, ...]:
    """The paths the cluster's programs will write to on this host."""
    found = list(_ALL)
    spec = cluster.spec
    if needs.is_node(host):
        found += [*_NODE, *runtime_of(cluster).directories, spec.kubernetes.container_runtime.data_dir]
        found += [path for plugin in plugins_possible(cluster) for path in plugin.directories]
        if spec.storage.local_path.enabled:
            found.append(spec.storage.local_path.path)
    if needs.is_etcd(cluster, host):
        found += [*_ETCD, spec.etcd.data_dir]
    audit = str(PurePosixPath(spec.kubernetes.audit.log_path).parent)
    if "controlPlane" in host.roles and audit not in NEVER:
        found.append(audit)
    return tuple(sorted(set(found)))


def mount_points(host: Host) -> tuple[str, ...]:
    """Directories of the system that the cluster's programs make where they are missing."""
    return _MOUNTED if needs.is_node(host) else ()


def parameters(cluster: Cluster, host: Host) -> tuple[str, ...]:
    """The kernel parameters the cluster's programs will set on this host by themselves."""
    if not needs.is_node(host):
        return ()
    ipvs = _IPVS if cluster.spec.kubernetes.kube_proxy.mode == "ipvs" else ()
    return (*_KUBE_PROXY, *ipvs)
