"""What one version can do, as values to plan with."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from kubexm.releases.files import kubernetes_data, nearest, parse_version, patched

__all__ = [
    "ContainerdCapabilities",
    "EtcdCapabilities",
    "KubernetesCapabilities",
    "containerd",
    "etcd",
    "kubernetes",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesCapabilities:
    """What matters to whoever configures this version of Kubernetes."""

    kubeadm_api: str
    """The version of kubeadm's configuration: v1beta3, v1beta4."""
    anonymous_paths: bool
    """The API server can limit anonymous callers to some paths."""
    authentication_api: str
    """The version of the API server's AuthenticationConfiguration."""
    refuses_cgroup_v1: bool
    """The kubelet does not start on cgroup v1 unless its configuration says otherwise."""
    proxy_modes: tuple[str, ...]
    deprecated_proxy_modes: tuple[str, ...]
    oldest_containerd: str
    oldest_etcd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdCapabilities:
    """What matters to whoever configures or upgrades this version of etcd."""

    minor: str
    newest: str
    """The newest patch of this minor that was known when its file was written."""
    upgrade_from: str
    """The oldest patch of the previous minor whose members may be replaced by this one's; empty: not known."""
    progress_argument: str
    """Sets how often watchers are told how far the member is."""
    feature_gates: tuple[str, ...]
    """To be switched on; empty where the same is done by arguments."""
    arguments: tuple[tuple[str, str], ...]
    """Further arguments that every member is given."""
    patch_arguments: tuple[tuple[str, str], ...]
    """Those of them that only later patches of the minor know; after the others, so that units stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerdCapabilities:
    """What matters to whoever configures this version of containerd."""

    minor: str
    config_version: int


@functools.cache
def kubernetes(version: str) -> KubernetesCapabilities:
    """What this Kubernetes version can do; AssetError if its minor is not in the catalog."""
    major, minor, _ = parse_version(version, "version of Kubernetes")
    found = kubernetes_data(f"{major}.{minor}")["capabilities"]
    return KubernetesCapabilities(
        kubeadm_api=found["kubeadm-api"],
        anonymous_paths=found["anonymous-paths"],
        authentication_api=found["authentication-api"],
        refuses_cgroup_v1=found["cgroup-v1"] == "refused",
        proxy_modes=tuple(found["proxy-modes"]),
        deprecated_proxy_modes=tuple(found["proxy-modes-deprecated"]),
        oldest_containerd=found["containerd-oldest"],
        oldest_etcd=found["etcd-oldest"],
    )


@functools.cache
def etcd(version: str) -> EtcdCapabilities:
    """What this etcd version can do; PlanError if kubexm knows nothing of its major or it is too old."""
    data = nearest("etcd", version)
    later: dict[str, str] = {}
    for table in patched(data, version):
        later.update(table["arguments"])
    return EtcdCapabilities(
        minor=data["minor"],
        newest=data["newest"],
        upgrade_from=data["upgrade-from"],
        progress_argument=data["progress-argument"],
        feature_gates=tuple(data["feature-gates"]),
        arguments=tuple(data["arguments"].items()),
        patch_arguments=tuple(later.items()),
    )


@functools.cache
def containerd(version: str) -> ContainerdCapabilities:
    """What this containerd version can do; PlanError if kubexm knows nothing of its major or it is too old."""
    data = nearest("containerd", version)
    return ContainerdCapabilities(minor=data["minor"], config_version=data["config-version"])
