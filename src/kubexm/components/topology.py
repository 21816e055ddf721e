"""Who is who in a cluster: control planes, etcd members, nodes; their addresses, and where the API is.

Pure: from config and facts. Whether the cluster is there already is read here and nowhere else (decision 20).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from kubexm.apis.v1alpha1 import Cluster
from kubexm.connector import Host
from kubexm.errors import PlanError
from kubexm.runner.facts import ClusterMarker
from kubexm.runtime import TaskContext

__all__ = [
    "LOCALHOST",
    "address_from_outside",
    "addresses",
    "balanced",
    "control_planes",
    "endpoint",
    "etcd_members",
    "etcd_urls",
    "internal_address",
    "is_initialised",
    "joined_control_planes",
    "keepers",
    "marker_of",
    "nodes",
    "outside_address",
    "plain_nodes",
    "server_url",
]

LOCALHOST = "127.0.0.1"


def control_planes(ctx: TaskContext) -> tuple[Host, ...]:
    """The hosts that run the API server, in the order of the file."""
    return ctx.hosts("controlPlane")


def etcd_members(ctx: TaskContext) -> tuple[Host, ...]:
    """The hosts that run a member of etcd, under systemd or in a static pod; none if etcd is not ours."""
    match ctx.cluster.spec.etcd.type:
        case "kubexm":
            return ctx.hosts("etcd")
        case "kubeadm":
            return ctx.hosts("controlPlane")
        case _:
            return ()


def etcd_urls(ctx: TaskContext) -> tuple[str, ...]:
    """The URLs at which clients, the API servers above all, reach etcd; in a static pod it is the host's own member."""
    etcd = ctx.cluster.spec.etcd
    match etcd.type:
        case "kubexm":
            return tuple(server_url(internal_address(ctx, host), etcd.client_port) for host in etcd_members(ctx))
        case "kubeadm":
            return (server_url(LOCALHOST, etcd.client_port),)
        case _:
            return etcd.external.endpoints


def nodes(ctx: TaskContext) -> tuple[Host, ...]:
    """The hosts that are nodes of Kubernetes: control planes and workers."""
    return tuple(host for host in ctx.hosts() if host.roles & {"controlPlane", "worker"})


def plain_nodes(ctx: TaskContext) -> tuple[Host, ...]:
    """The nodes that are no control planes."""
    return tuple(host for host in nodes(ctx) if "controlPlane" not in host.roles)


def balanced(ctx: TaskContext) -> tuple[Host, ...]:
    """The hosts that get a load balancer of ours: plain nodes, and the loadbalancer group."""
    if ctx.cluster.spec.control_plane_endpoint.load_balancer != "haproxy":
        return ()
    plain = {host.name for host in plain_nodes(ctx)}
    return tuple(host for host in ctx.hosts() if host.name in plain or "loadbalancer" in host.roles)


def keepers(ctx: TaskContext) -> tuple[Host, ...]:
    """The hosts that hold what the cluster is: etcd members and control planes."""
    members = {host.name for host in (*etcd_members(ctx), *control_planes(ctx))}
    return tuple(host for host in ctx.hosts() if host.name in members)


def marker_of(ctx: TaskContext, host: Host) -> ClusterMarker | None:
    """The host's mark, if it says this cluster; its roles are those that were brought up there."""
    marker = ctx.facts(host).marker
    if marker is None or marker.name != ctx.cluster.name:
        return None
    return marker if marker.uid == (ctx.cluster_uid or marker.uid) else None


def is_initialised(ctx: TaskContext) -> bool:
    """True if some etcd member or control plane of this cluster was brought up before: nothing is made anew then."""
    found = (marker_of(ctx, host) for host in keepers(ctx))
    return any(marker is not None and {"etcd", "controlPlane"} & set(marker.roles) for marker in found)


def joined_control_planes(ctx: TaskContext) -> tuple[Host, ...]:
    """The control planes that were brought up before."""
    marked = ((host, marker_of(ctx, host)) for host in control_planes(ctx))
    return tuple(host for host, marker in marked if marker is not None and "controlPlane" in marker.roles)


def addresses(ctx: TaskContext, host: Host) -> tuple[str, ...]:
    """The addresses other hosts use for this one, in the order of the pod networks' families, one of each."""
    known = host.internal_addresses or _own_addresses(ctx, host)
    wanted = [network.version for network in ctx.cluster.spec.network.pod_cidr]
    chosen = (next((one for one in known if ip_address(one).version == version), None) for version in wanted)
    found = tuple(one for one in chosen if one is not None)
    if not found and ctx.facts(host).is_assumed:
        return tuple(_unknown_address(ctx, host, version) for version in wanted)
    if not found:
        raise PlanError(
            f"host {host.name}: it has no IPv{wanted[0]} address that others could use",
            hint=f"say which: `internalAddress` of {host.name} in the file",
        )
    return found


def internal_address(ctx: TaskContext, host: Host) -> str:
    """The first address other hosts use for this one."""
    return addresses(ctx, host)[0]


def endpoint(cluster: Cluster) -> str:
    """The name or address under which hosts of the cluster reach the API, without its port.

    Behind our own balancer the name stands for 127.0.0.1 on every host: for the API server itself on control planes,
    for the balancer elsewhere.
    """
    wanted = cluster.spec.control_plane_endpoint
    if wanted.load_balancer == "external":
        return wanted.domain if wanted.domain and cluster.spec.system.manage_hosts_file else wanted.address
    return wanted.domain if wanted.domain and cluster.spec.system.manage_hosts_file else LOCALHOST


def server_url(host: str, port: int) -> str:
    """The URL of a server that speaks TLS at a name or address."""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def outside_address(ctx: TaskContext) -> str:
    """The address a user outside the cluster reaches the API at."""
    wanted = ctx.cluster.spec.control_plane_endpoint
    if wanted.address:
        return wanted.address
    entrances = ctx.hosts("loadbalancer") if wanted.load_balancer == "haproxy" else ()
    return address_from_outside(ctx, (entrances or control_planes(ctx))[0])


def address_from_outside(ctx: TaskContext, host: Host) -> str:
    """The address a user outside the cluster reaches a host at."""
    return internal_address(ctx, host) if host.local else host.address


def _unknown_address(ctx: TaskContext, host: Host, version: int) -> str:
    """Stands in plans made offline for an address only the host could tell: of a network nobody has, one for each."""
    network = ip_network("198.18.0.0/15" if version == 4 else "2001:db8::/64")
    return str(network.network_address + 1 + ctx.hosts().index(host))


def _own_addresses(ctx: TaskContext, host: Host) -> Iterable[str]:
    """What the host itself says, that of its default route first."""
    network = ctx.facts(host).network
    routed = [route.source for route in (network.route4, network.route6) if route is not None and route.source]
    return (*routed, *(one for one in network.addresses if one not in routed))
