"""The cluster's networks, its endpoint and its DNS. Must not know how a plugin is installed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt

from kubexm.apis.v1alpha1.base import EMPTY, Model, fixed, invalid, live, schema, section, shown
from kubexm.apis.v1alpha1.networks import Cidrs, Resolver, is_domain, parse_cidrs, parse_ip, refuse_unusable
from kubexm.apis.v1alpha1.scalars import Duration, Flag, Port, Size, text_of
from kubexm.apis.v1alpha1.texts import DomainOrEmpty, Text, matching

__all__ = ["ControlPlaneEndpoint", "CoreDns", "Dns", "Flannel", "Network"]

Plugin = Literal["flannel", "none"]
PLUGINS_TO_COME: Final = ("calico", "cilium")
BALANCERS_TO_COME: Final = ("kube-vip",)


def _plugin(value: object) -> object:
    if value in PLUGINS_TO_COME:
        raise invalid(
            f"this kubexm cannot install {value} yet: {', '.join(get_args(Plugin)[:-1])} and none exist",
            "with `none` you can bring your own network plugin",
        )
    return value


def _balancer(value: object) -> object:
    if value in BALANCERS_TO_COME:
        raise invalid(
            f"this kubexm cannot install {value} yet: haproxy and external exist",
            "`haproxy` needs nothing outside the cluster; with `external` you can bring your own balancer",
        )
    return value


def _endpoint_address(value: object) -> str:
    text = text_of(value, "an address", "10.0.0.100")
    if text and parse_ip(text) is None and not is_domain(text):
        raise invalid(f"{shown(text)} is not an address", "an IP address or a DNS name, such as `10.0.0.100`")
    refuse_unusable(text)
    return text


class Flannel(Model):
    """Settings of flannel."""

    backend: Annotated[
        Literal["vxlan", "host-gw"],
        fixed("`vxlan`: works everywhere. `host-gw`: plain routes, faster, needs all hosts in one layer-2 network."),
    ] = "vxlan"
    direct_routing: Annotated[Flag, live("With vxlan: plain routes between hosts of the same subnet.")] = False
    vni: Annotated[Annotated[StrictInt, Field(ge=1, le=16777215)], fixed("VXLAN network identifier.")] = 1
    port: Annotated[Port, fixed("UDP port of vxlan.")] = 8472
    interface: Annotated[
        Annotated[str, matching(r"[A-Za-z0-9._@:-]*", "the name of an interface", "eth1", longest=15)],
        live("Interface for traffic between hosts. Empty: that of the internal address."),
    ] = ""


def _shutdown_delay(value: timedelta) -> timedelta:
    if value > timedelta(minutes=5):
        raise invalid(
            "the shutdown delay is longer than 5m", "a little more than the interval of your balancer's checks"
        )
    return value


class Network(Model):
    """The networks of pods and services."""

    plugin: Annotated[
        Plugin,
        BeforeValidator(_plugin),
        fixed("Network plugin. `none`: you bring your own, and nodes are not Ready before it runs."),
    ] = "flannel"
    pod_cidr: Annotated[
        Cidrs,
        fixed("Addresses of pods; for dual stack an IPv4 and an IPv6 network: `10.244.0.0/16,fd00:244::/56`."),
    ] = parse_cidrs("10.244.0.0/16")
    service_cidr: Annotated[
        Cidrs,
        fixed("Addresses of services; the same IP families as podCIDR, in the same order. At most /12 or /108 wide."),
    ] = parse_cidrs("10.96.0.0/16")
    node_mask_v4: Annotated[
        Annotated[StrictInt, Field(ge=8, le=30)], fixed("Prefix length of the pod network each node gets, IPv4.")
    ] = 24
    node_mask_v6: Annotated[
        Annotated[StrictInt, Field(ge=48, le=126)], fixed("Prefix length of the pod network each node gets, IPv6.")
    ] = 64
    mtu: Annotated[
        Annotated[StrictInt, Field(ge=1280, le=65535)] | None,
        fixed("Largest packet between pods, for flannel. Unset: what the hosts' interface and flannel allow."),
    ] = None
    flannel: Annotated[Flannel, section("Settings of flannel; only with `plugin: flannel`.")] = Flannel()


class ControlPlaneEndpoint(Model):
    """The one address under which nodes and users reach the API servers."""

    domain: Annotated[
        DomainOrEmpty, fixed("Name of the endpoint, in every certificate and in /etc/hosts of every host.")
    ] = "lb.kubexm.local"
    address: Annotated[
        Annotated[str, BeforeValidator(_endpoint_address), schema("address")],
        fixed(
            "Address of your balancer (`external`: required). With haproxy: an address of the loadbalancer hosts for "
            "access from outside, or empty."
        ),
    ] = ""
    port: Annotated[Port, fixed("Port of the API servers and of the endpoint.")] = 6443
    load_balancer: Annotated[
        Literal["haproxy", "external"],
        BeforeValidator(_balancer),
        fixed(
            "`haproxy`: a balancer on each node that is no control plane, and on the hosts of roleGroups.loadbalancer. "
            "`external`: yours, at address."
        ),
    ] = "haproxy"
    shutdown_delay: Annotated[
        Annotated[Duration, AfterValidator(_shutdown_delay)],
        live(
            "`external`: how long an API server that shuts down keeps serving, so that your balancer notices: a little "
            "more than the interval of its checks, at most 5m. With haproxy, kubexm derives it."
        ),
    ] = timedelta(seconds=10)


class CoreDns(Model):
    """CoreDNS."""

    replicas: Annotated[Size, live("How many pods.")] = 2
    upstream: Annotated[
        tuple[Resolver, ...], live("Name servers for names outside the cluster. Empty: those of the node it runs on.")
    ] = ()
    hosts: Annotated[
        dict[str, Annotated[Text, BeforeValidator(_endpoint_address), schema("address", minLength=1)]],
        live("More names to answer, with their addresses."),
    ] = EMPTY


class Dns(Model):
    """Names inside the cluster."""

    coredns: Annotated[CoreDns, section("CoreDNS.")] = CoreDns()
