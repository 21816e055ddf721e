"""Rules about addresses: networks that must not overlap, IP families, sizes, ports, the endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from itertools import product

from kubexm.apis.v1alpha1.base import camel
from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.network import Flannel
from kubexm.apis.v1alpha1.networks import IpAddress, IpNetwork, families, overlap, parse_ip
from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule, listed

__all__ = ["RULES"]

_NETWORK: Path = ("spec", "network")
_POD: Path = (*_NETWORK, "podCIDR")
_SERVICE: Path = (*_NETWORK, "serviceCIDR")
_ENDPOINT: Path = ("spec", "controlPlaneEndpoint")
_HOSTS: Path = ("spec", "hosts")
_WIDEST = {4: 12, 6: 108}
_NARROWEST = {4: 28, 6: 124}
_NODE_MASKS = {4: (8, 30), 6: (48, 126)}
_MOST_NODE_BITS = 16


def _overlap(cluster: Cluster) -> Iterator[Finding]:
    network = cluster.spec.network
    for pod, service in product(network.pod_cidr, network.service_cidr):
        if overlap(pod, service):
            yield Finding(
                path=_SERVICE,
                message=f"serviceCIDR {service} overlaps podCIDR {pod}",
                hint=_apart(service, pod),
                also=(_POD,),
            )


def _apart(one: IpNetwork, other: IpNetwork) -> str:
    choices = (
        ("10.96.0.0/16", "172.20.0.0/16", "192.168.0.0/16") if one.version == 4 else ("fd00:96::/112", "fd00:97::/112")
    )
    free = next((choice for choice in choices if not overlap(other, ip_network(choice)) and choice != str(one)), "")
    return f"choose one of its own, such as `{free}`" if free else "choose networks that do not overlap"


def _hosts_inside(cluster: Cluster, path: Path, what: str, nets: tuple[IpNetwork, ...]) -> Iterator[Finding]:
    for net in nets:
        inside = [
            (host, address) for host in cluster.hosts for address in host.internal_addresses if _within(address, net)
        ]
        if inside:
            host = inside[0][0]
            who = listed(f"{host.name} ({address})" for host, address in inside)
            key = "internalAddress" if cluster.spec.hosts[host.entry].internal_address else "address"
            yield Finding(
                path=path,
                message=f"{what} {net} holds addresses of hosts: {who}",
                hint="choose a network apart from the hosts'",
                also=((*_HOSTS, host.entry, key),),
            )


def _pods_and_hosts(cluster: Cluster) -> Iterator[Finding]:
    yield from _hosts_inside(cluster, _POD, "podCIDR", cluster.spec.network.pod_cidr)


def _services_and_hosts(cluster: Cluster) -> Iterator[Finding]:
    yield from _hosts_inside(cluster, _SERVICE, "serviceCIDR", cluster.spec.network.service_cidr)


def _within(address: IpAddress, net: IpNetwork) -> bool:
    return address.version == net.version and address in net


def _families(cluster: Cluster) -> Iterator[Finding]:
    pods, services = cluster.spec.network.pod_cidr, cluster.spec.network.service_cidr
    if [net.version for net in pods] != [net.version for net in services]:
        yield Finding(
            path=_SERVICE,
            message=f"serviceCIDR is {_named(services)}, but podCIDR is {_named(pods)}",
            hint="both need the same IP families, in the same order",
            also=(_POD,),
        )


def _named(nets: tuple[IpNetwork, ...]) -> str:
    return " and ".join(f"IPv{net.version}" for net in nets)


def _host_families(cluster: Cluster) -> Iterator[Finding]:
    wanted = families(cluster.spec.network.pod_cidr)
    missing: dict[int, list[str]] = {}
    for host in cluster.hosts:
        if not host.internal_addresses or not host.has_role("controlPlane", "worker"):
            continue
        for version in sorted(wanted - families(host.internal_addresses)):
            missing.setdefault(version, []).append(host.name)
    for version, names in missing.items():
        entry = cluster.host(names[0]).entry
        yield Finding(
            path=(*_HOSTS, entry, "internalAddress"),
            message=f"pods are to have IPv{version} addresses, but these hosts have none: {listed(names)}",
            hint="write both: `internalAddress: 10.0.0.4,fd00::4`"
            if len(wanted) > 1
            else "set internalAddress, or change podCIDR",
            also=((*_HOSTS, entry, "address"), _POD),
        )


def _service_sizes(cluster: Cluster) -> Iterator[Finding]:
    for net in cluster.spec.network.service_cidr:
        widest, narrowest = _WIDEST[net.version], _NARROWEST[net.version]
        if not widest <= net.prefixlen <= narrowest:
            problem = "wider than Kubernetes allows" if net.prefixlen < widest else "too small for a cluster's services"
            yield Finding(
                path=_SERVICE, message=f"{net} is {problem}", hint=f"use a prefix from /{widest} to /{narrowest}"
            )


def _pod_sizes(cluster: Cluster) -> Iterator[Finding]:
    network = cluster.spec.network
    nodes = sum(host.has_role("controlPlane", "worker") for host in cluster.hosts)
    for net in network.pod_cidr:
        key, mask = ("nodeMaskV4", network.node_mask_v4) if net.version == 4 else ("nodeMaskV6", network.node_mask_v6)
        if mask < net.prefixlen or mask - net.prefixlen > _MOST_NODE_BITS:
            low, high = _NODE_MASKS[net.version]
            low, high = max(low, net.prefixlen), min(high, net.prefixlen + _MOST_NODE_BITS)
            usual = "10.244.0.0/16" if net.version == 4 else "fd00:244::/56"
            other = "wider" if net.prefixlen > high else "smaller"
            change = f"use a {other} podCIDR, such as `{usual}`"
            yield Finding(
                path=(*_NETWORK, key) if low <= high else _POD,
                message=f"a /{mask} for each node does not fit podCIDR {net}",
                hint=f"use a {key} from {low} to {high}" if low <= high else change,
                also=(_POD,) if low <= high else ((*_NETWORK, key),),
            )
        elif 2 ** (mask - net.prefixlen) < nodes:
            yield Finding(
                path=_POD,
                message=f"{net} has room for {2 ** (mask - net.prefixlen)} nodes of /{mask} each; there are {nodes}",
                hint=f"use a wider network, or a larger {key}",
                also=((*_NETWORK, key),),
            )


def _pods_per_node(cluster: Cluster) -> Iterator[Finding]:
    network, most = cluster.spec.network, cluster.spec.kubernetes.kubelet.config.get("maxPods", 110)
    room = 2 ** (32 - network.node_mask_v4) - 2
    if 4 in families(network.pod_cidr) and isinstance(most, int) and most > room:
        yield Finding(
            path=("spec", "kubernetes", "kubelet", "config", "maxPods"),
            message=f"a node may run {most} pods but has addresses for {room} (/{network.node_mask_v4})",
            hint="lower maxPods or nodeMaskV4",
            warning=True,
            also=((*_NETWORK, "nodeMaskV4"),),
        )


def _endpoint(cluster: Cluster) -> Iterator[Finding]:
    endpoint, domain = cluster.spec.control_plane_endpoint, cluster.spec.kubernetes.dns_domain
    planes = cluster.role("controlPlane")
    if endpoint.load_balancer == "external" and not endpoint.address:
        yield Finding(
            path=(*_ENDPOINT, "address"),
            message="an external load balancer needs its address here",
            hint="set address, or use `loadBalancer: haproxy`",
            also=((*_ENDPOINT, "loadBalancer"),),
        )
    if endpoint.load_balancer == "haproxy" and not endpoint.domain:
        yield Finding(
            path=(*_ENDPOINT, "domain"),
            message="the internal load balancer needs a name that every host can resolve to it",
            hint="remove this line to use `lb.kubexm.local`",
        )
    if endpoint.domain == domain or endpoint.domain.endswith("." + domain):
        yield Finding(
            path=(*_ENDPOINT, "domain"),
            message=f"`{endpoint.domain}` lies in the cluster's own domain `{domain}`, where pods cannot resolve it",
            hint="choose a name outside of it, such as `lb.kubexm.local`",
        )
    own = [host.name for host in planes if parse_ip(endpoint.address) in host.internal_addresses]
    if endpoint.load_balancer == "external" and len(planes) > 1 and own:
        yield Finding(
            path=(*_ENDPOINT, "address"),
            message=f"the endpoint is the address of {own[0]} alone: if that host is lost, so is the API",
            hint="use the address of a balancer, or `loadBalancer: haproxy`",
            warning=True,
        )


def _endpoint_inside(cluster: Cluster) -> Iterator[Finding]:
    address = parse_ip(cluster.spec.control_plane_endpoint.address)
    for what, nets in (("podCIDR", cluster.spec.network.pod_cidr), ("serviceCIDR", cluster.spec.network.service_cidr)):
        for net in nets:
            if address is not None and _within(address, net):
                yield Finding(
                    path=(*_ENDPOINT, "address"),
                    message=f"the endpoint {address} lies inside {what} {net}",
                    hint="choose a network apart from it",
                )


def _ports(cluster: Cluster) -> Iterator[Finding]:
    etcd, nodes = cluster.spec.etcd, cluster.spec.kubernetes.service_node_ports
    taken: dict[int, str] = {
        10250: "the kubelet",
        10256: "kube-proxy",
        10257: "kube-controller-manager",
        10259: "kube-scheduler",
    }
    ports: list[tuple[Path, int, str]] = [
        ((*_ENDPOINT, "port"), cluster.spec.control_plane_endpoint.port, "the API server")
    ]
    if etcd.type != "external":
        ports += [
            (("spec", "etcd", "clientPort"), etcd.client_port, "etcd's clients"),
            (("spec", "etcd", "peerPort"), etcd.peer_port, "etcd's members"),
            (("spec", "etcd", "metricsPort"), etcd.metrics_port, "etcd's metrics"),
        ]
    for path, port, what in ports:
        if port in taken:
            yield Finding(
                path=path, message=f"port {port} is used by {taken[port]} already", hint="choose another port"
            )
        elif port in nodes:
            yield Finding(
                path=path,
                message=f"port {port} lies inside serviceNodePorts {nodes}",
                hint="choose a port outside of that range",
                also=(("spec", "kubernetes", "serviceNodePorts"),),
            )
        taken.setdefault(port, what)


def _flannel(cluster: Cluster) -> Iterator[Finding]:
    network, flannel, usual = cluster.spec.network, cluster.spec.network.flannel, Flannel()
    if network.plugin != "flannel":
        for key, there in (("mtu", network.mtu is not None), ("flannel", flannel != usual)):
            if there:
                yield Finding(
                    path=(*_NETWORK, key),
                    message=f"`{key}` has no effect with `plugin: {network.plugin}`: only flannel is told",
                    hint="set it where you install your network plugin, and remove it here",
                    warning=True,
                )
    elif flannel.backend == "host-gw":
        for name in ("direct_routing", "vni", "port"):
            if getattr(flannel, name) != getattr(usual, name):
                why = "every route is direct" if name == "direct_routing" else "there is no tunnel"
                yield Finding(
                    path=(*_NETWORK, "flannel", camel(name)),
                    message=f"with `backend: host-gw` {why}; {camel(name)} has no effect",
                    warning=True,
                )


RULES = (
    Rule(_overlap, needs=(_POD, _SERVICE)),
    Rule(_pods_and_hosts, needs=(_POD,)),
    Rule(_services_and_hosts, needs=(_SERVICE,)),
    Rule(_families, needs=(_POD, _SERVICE)),
    Rule(_host_families, needs=(_POD, ("spec", "roleGroups"))),
    Rule(_service_sizes, needs=(_SERVICE,)),
    Rule(_pod_sizes, needs=(_POD, (*_NETWORK, "nodeMaskV4"), (*_NETWORK, "nodeMaskV6"))),
    Rule(_pods_per_node, needs=(_POD, (*_NETWORK, "nodeMaskV4"), ("spec", "kubernetes", "kubelet", "config"))),
    Rule(_endpoint, needs=(_ENDPOINT, ("spec", "kubernetes", "dnsDomain"))),
    Rule(_endpoint_inside, needs=(_POD, _SERVICE, _ENDPOINT)),
    Rule(_ports, needs=(("spec", "etcd"), _ENDPOINT, ("spec", "kubernetes", "serviceNodePorts"))),
    Rule(_flannel, needs=((*_NETWORK, "flannel"), (*_NETWORK, "plugin"), (*_NETWORK, "mtu"))),
)
