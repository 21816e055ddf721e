"""The root of the user's file. A `Cluster` is well formed; whether its parts fit together is for `rules` to say."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from kubexm.apis.v1alpha1.base import EMPTY, Model, fixed, live, section
from kubexm.apis.v1alpha1.etcd import Etcd
from kubexm.apis.v1alpha1.execution import Assets, Certs, Execution, Preflight
from kubexm.apis.v1alpha1.host import Global, HostEntry
from kubexm.apis.v1alpha1.inventory import Host, expand_hosts, resolve_groups, resolve_target
from kubexm.apis.v1alpha1.kubernetes import Kubernetes
from kubexm.apis.v1alpha1.network import ControlPlaneEndpoint, Dns, Network
from kubexm.apis.v1alpha1.roles import RoleGroups
from kubexm.apis.v1alpha1.services import Addon, Registry, Storage
from kubexm.apis.v1alpha1.system import System
from kubexm.apis.v1alpha1.texts import Name

__all__ = ["API_VERSION", "KIND", "Cluster", "Metadata", "Spec"]

API_VERSION = "kubexm.io/v1alpha1"
KIND = "Cluster"


class Metadata(Model):
    """What the cluster is called."""

    name: Annotated[Name, fixed("Name of the cluster: lower-case letters, digits and `-`.")]
    labels: Annotated[dict[str, str], live("Notes of your own; kubexm does not look at them.")] = EMPTY


class Spec(Model):
    """What the cluster is to be."""

    global_: Annotated[Global, Field(alias="global"), section("Defaults for every host.")] = Global()
    hosts: Annotated[tuple[HostEntry, ...], section("The hosts, or ranges of hosts. At least one.")]
    role_groups: Annotated[RoleGroups, section("Which host does what.")]
    system: Annotated[System, section("What the operating system of each host is brought to.")] = System()
    kubernetes: Annotated[Kubernetes, section("Kubernetes itself.")] = Kubernetes()
    etcd: Annotated[Etcd, section("etcd, which holds everything the cluster knows.")] = Etcd()
    network: Annotated[Network, section("The networks of pods and services.")] = Network()
    control_plane_endpoint: Annotated[
        ControlPlaneEndpoint, section("The one address under which nodes and users reach the API servers.")
    ] = ControlPlaneEndpoint()
    dns: Annotated[Dns, section("Names inside the cluster.")] = Dns()
    storage: Annotated[Storage, section("Storage classes.")] = Storage()
    registry: Annotated[Registry, section("Where images come from.")] = Registry()
    addons: Annotated[tuple[Addon, ...], section("Things of yours, applied once the cluster is up.")] = ()
    assets: Annotated[Assets, section("Where the files and images of the cluster come from.")] = Assets()
    preflight: Annotated[Preflight, section("What hosts must have before anything is changed.")] = Preflight()
    certs: Annotated[Certs, section("How long certificates are valid.")] = Certs()
    execution: Annotated[Execution, section("How kubexm goes about its work.")] = Execution()


class Cluster(Model):
    """A Kubernetes cluster, as its user wants it."""

    api_version: Annotated[Literal["kubexm.io/v1alpha1"], fixed("Version of this format.")] = "kubexm.io/v1alpha1"
    kind: Annotated[Literal["Cluster"], fixed("What the file describes.")] = "Cluster"
    metadata: Annotated[Metadata, section("What the cluster is called.")]
    spec: Annotated[Spec, section("What the cluster is to be.")]

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.metadata.name

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """Every host with its defaults and roles, in the order of the file."""
        return expand_hosts(self.spec.hosts, self.spec.role_groups, self.spec.global_)

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Names of the hosts in every group, in the order of the group."""
        return resolve_groups(self.spec.role_groups, frozenset(host.name for host in self.hosts))

    def target(self, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the hosts that a hook's target means, and names in it that nobody has."""
        return resolve_target(target, self.groups, self._by_name)

    def role(self, role: str) -> tuple[Host, ...]:
        """The hosts that have a role, in the order of the file."""
        return tuple(host for host in self.hosts if role in host.roles)

    @cached_property
    def _by_name(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    def host(self, name: str) -> Host:
        """The host of this name; KeyError if there is none."""
        return self._by_name[name]

    @property
    def cluster_name(self) -> str:
        """The name in kubeconfigs: kubernetes.clusterName, or metadata.name."""
        return self.spec.kubernetes.cluster_name or self.metadata.name
