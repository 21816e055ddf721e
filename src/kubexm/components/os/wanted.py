"""What a host's operating system is to be like, by what the host is for. Pure: from config and addresses."""

from __future__ import annotations

import ipaddress
from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components import needs, required, topology
from kubexm.connector import Host
from kubexm.errors import PlanError
from kubexm.runner import Opening
from kubexm.runtime import TaskContext

__all__ = ["LEAST", "LIMITS", "hosts_entries", "hosts_networks", "kernel_parameters", "modules", "openings"]

_KUBELET: Final = {
    "kernel.keys.root_maxbytes": "25000000",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
}
"""The kubelet insists on these, and would set them itself, past everybody who keeps how things were."""

LEAST: Final = {"fs.inotify.max_user_instances": 8192, "fs.inotify.max_user_watches": 524288}
"""Every pod with a mounted Secret costs some; the usual defaults end with the thirtieth."""

LIMITS: Final = """\
# Managed by kubexm: for people and scripts that log in. Services have limits of their own in their units.
* soft nofile 65536
* hard nofile 1048576
root soft nofile 65536
root hard nofile 1048576
* soft nproc unlimited
* hard nproc unlimited
"""

_FEW = 64
"""Above this many networks of hosts a firewall gets too many rules: ports are opened to everybody then."""


def kernel_parameters(cluster: Cluster, host: Host) -> dict[str, str]:
    """The values this host's kernel is to have; the user's win."""
    wild = [key for key in cluster.spec.system.sysctl if "*" in key]
    if wild:
        raise PlanError(
            f"spec.system.sysctl: {wild[0]}: kubexm sets parameters one by one",
            hint="name each of them, such as net.ipv4.conf.all.rp_filter and net.ipv4.conf.default.rp_filter",
        )
    values = {**needs.sysctl(cluster), **_KUBELET} if needs.is_node(host) else {}
    return dict(sorted({**values, **cluster.spec.system.sysctl}.items()))


def modules(cluster: Cluster, host: Host) -> tuple[str, ...]:
    """The kernel modules to load; where either of two will do, the one that is needed is loaded by who needs it."""
    return tuple(name for name in required.modules(cluster, host) if "|" not in name)


def hosts_entries(ctx: TaskContext) -> dict[str, tuple[str, ...]]:
    """Names by address, for every host and the endpoint."""
    entries: dict[str, tuple[str, ...]] = {}
    endpoint = ctx.cluster.spec.control_plane_endpoint
    if endpoint.domain:
        address = endpoint.address if endpoint.load_balancer == "external" else topology.LOCALHOST
        if address and _is_address(address):
            entries[address] = (endpoint.domain,)
    for host in ctx.hosts():
        for address in topology.addresses(ctx, host):
            entries[address] = tuple(dict.fromkeys((*entries.get(address, ()), host.name)))
    return entries


def openings(cluster: Cluster, host: Host, hosts_networks: tuple[str, ...]) -> tuple[Opening, ...]:
    """What a firewall on this host must let in: what users need from everywhere, the rest from hosts of the cluster."""
    node_ports = cluster.spec.kubernetes.service_node_ports
    found: list[Opening] = []
    for use in required.ports(cluster, host):
        if use.address:  # on 127.0.0.1 only
            continue
        entrance = use.port == cluster.spec.control_plane_endpoint.port
        sources = ("",) if entrance else hosts_networks
        found += [Opening(port=use.port, protocol=use.protocol, source=source) for source in sources]
    if needs.is_node(host):
        for protocol in ("tcp", "udp"):
            found.append(Opening(port=node_ports.first, to=node_ports.last, protocol=protocol))
        # Addresses of services are translated before anything is filtered.
        found += [Opening.network(str(network)) for network in cluster.spec.network.pod_cidr]
    return tuple(found)


def hosts_networks(ctx: TaskContext) -> tuple[str, ...]:
    """The networks that hold the hosts of the cluster and nobody else; everywhere, if these are too many."""
    own = [ipaddress.ip_network(address) for host in ctx.hosts() for address in topology.addresses(ctx, host)]
    four = ipaddress.collapse_addresses(one for one in own if isinstance(one, ipaddress.IPv4Network))
    six = ipaddress.collapse_addresses(one for one in own if isinstance(one, ipaddress.IPv6Network))
    networks = (*map(str, four), *map(str, six))
    return networks if len(networks) <= _FEW else ("",)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
