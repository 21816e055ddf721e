"""Which certificates and kubeconfigs a cluster needs, as kubeadm names them. Pure: from config and facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from kubexm.components import topology
from kubexm.components.pki import names
from kubexm.components.pki.x509 import Certificate
from kubexm.connector import Host
from kubexm.runtime import TaskContext

__all__ = [
    "AuthorityName",
    "Kubeconfig",
    "api_server_certificates",
    "authorities",
    "client_certificates",
    "etcd_certificates",
    "kubeconfigs",
    "node_certificates",
]

_ADMINS = "kubeadm:cluster-admins"
_MASTERS = "system:masters"
_LOCALHOST = "localhost"
_LONGEST_NAME = 64
_LOOPBACK = (topology.LOCALHOST, "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityName:
    """A CA: the pair in the work directory, and what it calls itself."""

    name: str
    common_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """A kubeconfig: who it is for, and which API it names."""

    name: str
    """Of the secret."""
    client: str
    """Name of the pair it proves itself with."""
    server: str
    cluster: str
    user: str
    context: str
    servers: tuple[tuple[str, str], ...] = ()
    """Other ways to the same API, by name: each gets a cluster and a context called CONTEXT-NAME."""


def authorities(ctx: TaskContext) -> tuple[AuthorityName, ...]:
    """The CAs kubexm makes: none for an etcd that is not its own."""
    found = [
        AuthorityName(name=names.CA, common_name="kubernetes"),
        AuthorityName(name=names.FRONT_PROXY_CA, common_name="front-proxy-ca"),
    ]
    if ctx.cluster.spec.etcd.type != "external":
        found.append(AuthorityName(name=names.ETCD_CA, common_name="etcd-ca"))
    return tuple(found)


def api_server_certificates(ctx: TaskContext) -> tuple[Certificate, ...]:
    """What API servers serve with: valid for every way to reach any of them."""
    dns, ips = _split(_api_server_names(ctx))
    return tuple(
        Certificate(
            name=names.of_host(names.APISERVER, host.name),
            authority=names.CA,
            common_name="kube-apiserver",
            names=dns,
            addresses=ips,
            server=True,
        )
        for host in topology.control_planes(ctx)
    )


def client_certificates(ctx: TaskContext) -> tuple[Certificate, ...]:
    """What API servers call others with, and what clients of theirs prove themselves with."""
    found = [
        Certificate(
            name=names.APISERVER_KUBELET_CLIENT,
            authority=names.CA,
            common_name="kube-apiserver-kubelet-client",
            organizations=(_ADMINS,),
            client=True,
        ),
        Certificate(
            name=names.FRONT_PROXY_CLIENT,
            authority=names.FRONT_PROXY_CA,
            common_name="front-proxy-client",
            client=True,
        ),
        _client(names.ADMIN, "kubernetes-admin", _ADMINS),
    ]
    if ctx.cluster.spec.kubernetes.type == "kubexm":
        found.append(_client(names.KUBE_PROXY, "system:kube-proxy"))
    for host in topology.control_planes(ctx):
        found += [
            _client(names.of_host(names.HOST_ADMIN, host.name), "kubernetes-admin", _ADMINS),
            _client(names.of_host(names.SUPER_ADMIN, host.name), "kubernetes-super-admin", _MASTERS),
            _client(names.of_host(names.CONTROLLER_MANAGER, host.name), "system:kube-controller-manager"),
            _client(names.of_host(names.SCHEDULER, host.name), "system:kube-scheduler"),
        ]
    return tuple(found)


def etcd_certificates(ctx: TaskContext) -> tuple[Certificate, ...]:
    """What members of etcd prove themselves with to clients and to each other, and its clients to them."""
    if ctx.cluster.spec.etcd.type == "external":
        return ()
    found = []
    for host in topology.etcd_members(ctx):
        dns, ips = _split((host.name, _LOCALHOST, *topology.addresses(ctx, host), *_LOOPBACK))
        found += [
            Certificate(
                name=names.of_host(pair, host.name),
                authority=names.ETCD_CA,
                common_name=host.name,
                names=dns,
                addresses=ips,
                server=True,
                client=True,
            )
            for pair in (names.ETCD_SERVER, names.ETCD_PEER)
        ]
    clients = {
        names.ETCD_HEALTHCHECK_CLIENT: "kube-etcd-healthcheck-client",
        names.APISERVER_ETCD_CLIENT: "kube-apiserver-etcd-client",
    }
    found += [
        Certificate(name=pair, authority=names.ETCD_CA, common_name=name, client=True) for pair, name in clients.items()
    ]
    return tuple(found)


def node_certificates(ctx: TaskContext) -> tuple[Certificate, ...]:
    """What kubelets serve with, as Kubernetes' own signer would name it: all addresses others know the node by."""
    found = []
    for host in topology.nodes(ctx):
        dns, ips = _split((host.name, *_addresses(ctx, host)))
        found.append(
            Certificate(
                name=names.of_host(names.KUBELET_SERVING, host.name),
                authority=names.CA,
                common_name=_node_name(host),
                organizations=("system:nodes",),
                names=dns,
                addresses=ips,
                server=True,
            )
        )
    return tuple(found)


def kubeconfigs(ctx: TaskContext) -> tuple[Kubeconfig, ...]:
    """The user's kubeconfig, those on control planes (which use their own API server), and kube-proxy's."""
    cluster, port = ctx.cluster.cluster_name, ctx.cluster.spec.control_plane_endpoint.port
    outside = topology.server_url(topology.outside_address(ctx), port)
    own = topology.server_url(topology.LOCALHOST, port)
    found = [
        Kubeconfig(
            name=names.kubeconfig(names.ADMIN),
            client=names.client(names.ADMIN),
            server=outside,
            cluster=cluster,
            user=f"{cluster}-admin",
            context=cluster,
            servers=_each_server(ctx, port),
        )
    ]
    if ctx.cluster.spec.kubernetes.type == "kubexm":
        endpoint = topology.server_url(topology.endpoint(ctx.cluster), port)
        found.append(_kubeconfig(names.KUBE_PROXY, endpoint, cluster, "system:kube-proxy"))
    users = {
        names.HOST_ADMIN: "kubernetes-admin",
        names.SUPER_ADMIN: "kubernetes-super-admin",
        names.CONTROLLER_MANAGER: "system:kube-controller-manager",
        names.SCHEDULER: "system:kube-scheduler",
    }
    found += [
        _kubeconfig(names.of_host(who, host.name), own, cluster, user)
        for host in topology.control_planes(ctx)
        for who, user in users.items()
    ]
    return tuple(found)


def _api_server_names(ctx: TaskContext) -> Iterable[str]:
    """Every name and address under which somebody may reach an API server: the same for all of them."""
    spec = ctx.cluster.spec
    yield from ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    yield f"kubernetes.default.svc.{spec.kubernetes.dns_domain}"
    yield _LOCALHOST
    yield spec.control_plane_endpoint.domain
    for host in (*topology.control_planes(ctx), *ctx.hosts("loadbalancer")):
        yield host.name
        yield from _addresses(ctx, host)
    yield str(spec.network.service_cidr[0].network_address + 1)
    yield from _LOOPBACK
    yield spec.control_plane_endpoint.address
    yield from spec.kubernetes.api_server.cert_sans


def _addresses(ctx: TaskContext, host: Host) -> Iterable[str]:
    """The addresses of the host that last: not those that appear with pods and networks on it."""
    yield from topology.addresses(ctx, host)
    if not host.local:
        yield host.address


def _split(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """DNS names and IP addresses, each once, in order; empty ones left out."""
    dns: dict[str, None] = {}
    ips: dict[str, None] = {}
    for text in texts:
        try:
            ips[str(ip_address(text))] = None
        except ValueError:
            if text:
                dns[text] = None
    return tuple(dns), tuple(ips)


def _node_name(host: Host) -> str:
    """As nodes are called by Kubernetes, if that fits into a certificate; nobody looks at it when a kubelet serves."""
    name = f"system:node:{host.name}"
    return name if len(name) <= _LONGEST_NAME else host.name


def _client(who: str, common_name: str, *organizations: str) -> Certificate:
    return Certificate(
        name=names.client(who),
        authority=names.CA,
        common_name=common_name,
        organizations=organizations,
        client=True,
    )


def _each_server(ctx: TaskContext, port: int) -> tuple[tuple[str, str], ...]:
    """Every API server, where there are several: one of them, or the way to all of them, may be down."""
    planes = topology.control_planes(ctx)
    if len(planes) < 2:
        return ()
    return tuple((host.name, topology.server_url(topology.address_from_outside(ctx, host), port)) for host in planes)


def _kubeconfig(who: str, server: str, cluster: str, user: str) -> Kubeconfig:
    return Kubeconfig(
        name=names.kubeconfig(who),
        client=names.client(who),
        server=server,
        cluster=cluster,
        user=user,
        context=f"{user}@{cluster}",
    )
