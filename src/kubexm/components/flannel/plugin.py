"""What the rest of kubexm must know of flannel."""

from __future__ import annotations

from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.api import Workload
from kubexm.components.flannel.manifests import DAEMON_SET, NAMESPACE
from kubexm.components.flannel.module import Flannel
from kubexm.components.needs import PortUse
from kubexm.components.network_plugin import NetworkPlugin

__all__ = ["FLANNEL"]


def _is_vxlan(cluster: Cluster) -> bool:
    return cluster.spec.network.flannel.backend == "vxlan"


def _ports(cluster: Cluster) -> tuple[PortUse, ...]:
    port = cluster.spec.network.flannel.port
    vxlan = PortUse(port=port, user="flannel's vxlan", protocol="udp", setting="network.flannel.port")
    return (vxlan,) if _is_vxlan(cluster) else ()


def _modules(cluster: Cluster) -> tuple[str, ...]:
    return ("vxlan",) if _is_vxlan(cluster) else ()


def _links(cluster: Cluster) -> tuple[str, ...]:
    vni = cluster.spec.network.flannel.vni
    return ("cni0", f"flannel.{vni}", f"flannel-v6.{vni}")


FLANNEL: Final = NetworkPlugin(
    name="flannel",
    module=Flannel,
    workloads=(Workload("DaemonSet", NAMESPACE, DAEMON_SET),),
    ports=_ports,
    modules=_modules,
    directories=("/run/flannel",),
    interfaces=("cni0", "flannel"),
    links=_links,
    chains=("FLANNEL",),
    tables=("ip/flannel-ipv4", "ip6/flannel-ipv6"),
    nft_images=("flannel",),
)
