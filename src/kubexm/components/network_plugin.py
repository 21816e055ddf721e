"""What a network plugin is to the rest of kubexm. Each declares itself in its own folder; `networks.py` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.api import Workload
from kubexm.components.needs import PortUse
from kubexm.module import Module

__all__ = ["NetworkPlugin"]


def _nothing(cluster: Cluster) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlugin:
    """All there is to know of a plugin; what depends on cluster.yaml is a function of it, and pure.

    What every plugin uses is known without it: /etc/cni, /opt/cni, /var/lib/cni, chains called CNI-….
    """

    name: str
    """Its value of spec.network.plugin; the catalog's feature for its own files and images is called the same."""
    module: type[Module]
    """Brings it into the cluster."""
    workloads: tuple[Workload, ...]
    """What must be rolled out for the cluster to be well. Where they are is looked when a node has no network."""
    ports: Callable[[Cluster], tuple[PortUse, ...]] = _nothing
    """What nodes must have free, and let in from each other."""
    modules: Callable[[Cluster], tuple[str, ...]] = _nothing
    """Kernel modules nodes must have; `a|b`: either will do."""
    directories: tuple[str, ...] = ()
    """Where its pods write on a node."""
    interfaces: tuple[str, ...] = ()
    """What names of its interfaces begin with, whatever the settings."""
    links: Callable[[Cluster], tuple[str, ...]] = _nothing
    """The interfaces of this cluster, whole names: they go with it."""
    chains: tuple[str, ...] = ()
    """Its chains of iptables are called so, then `-` and more."""
    tables: tuple[str, ...] = ()
    """Its tables of nftables: FAMILY/NAME."""
    nft_images: tuple[str, ...] = ()
    """Images of its that hold nft: delete borrows it for hosts that have none."""
