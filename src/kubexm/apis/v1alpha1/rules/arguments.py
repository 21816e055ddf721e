"""Rules about arguments and settings of programs: those that are kubexm's to set, and those that would do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule

__all__ = ["RULES"]

_KUBERNETES: Path = ("spec", "kubernetes")
_API_SERVER: Path = (*_KUBERNETES, "apiServer")
_CONTROLLER_MANAGER: Path = (*_KUBERNETES, "controllerManager")
_SCHEDULER: Path = (*_KUBERNETES, "scheduler")
_KUBELET: Path = (*_KUBERNETES, "kubelet")
_KUBE_PROXY: Path = (*_KUBERNETES, "kubeProxy")
_ETCD: Path = ("spec", "etcd")

_OWNED: Final[Mapping[Path, Mapping[str, str]]] = {
    _API_SERVER: {
        "advertise-address": "spec.hosts[].internalAddress",
        "etcd-servers": "spec.etcd",
        "secure-port": "spec.controlPlaneEndpoint.port",
        "service-cluster-ip-range": "spec.network.serviceCIDR",
        "service-node-port-range": "spec.kubernetes.serviceNodePorts",
    },
    _CONTROLLER_MANAGER: {
        "cluster-cidr": "spec.network.podCIDR",
        "cluster-name": "spec.kubernetes.clusterName",
        "node-cidr-mask-size": "spec.network.nodeMaskV4",
        "node-cidr-mask-size-ipv4": "spec.network.nodeMaskV4",
        "node-cidr-mask-size-ipv6": "spec.network.nodeMaskV6",
        "service-cluster-ip-range": "spec.network.serviceCIDR",
    },
    _SCHEDULER: {"config": "spec.kubernetes.scheduler.config", "kubeconfig": ""},
    _KUBELET: {
        "bootstrap-kubeconfig": "",
        "config": "spec.kubernetes.kubelet.config",
        "config-dir": "spec.kubernetes.kubelet.config",
        "container-runtime-endpoint": "spec.kubernetes.containerRuntime",
        "hostname-override": "spec.hosts[].name",
        "kubeconfig": "",
        "node-ip": "spec.hosts[].internalAddress",
    },
    _KUBE_PROXY: {
        "cluster-cidr": "spec.network.podCIDR",
        "config": "spec.kubernetes.kubeProxy.config",
        "feature-gates": "spec.kubernetes.featureGates",
        "hostname-override": "spec.hosts[].name",
        "kubeconfig": "",
        "master": "spec.controlPlaneEndpoint",
        "proxy-mode": "spec.kubernetes.kubeProxy.mode",
    },
    _ETCD: {
        "data-dir": "spec.etcd.dataDir",
        "initial-advertise-peer-urls": "",
        "initial-cluster": "",
        "initial-cluster-state": "",
        "listen-client-urls": "spec.etcd.clientPort",
        "listen-peer-urls": "spec.etcd.peerPort",
        "name": "",
    },
}
_OWNED_CONFIG: Final[Mapping[Path, Mapping[str, str]]] = {
    _KUBELET: {
        "clusterDomain": "spec.kubernetes.dnsDomain",
        "containerRuntimeEndpoint": "spec.kubernetes.containerRuntime",
        "featureGates": "spec.kubernetes.featureGates",
        "registerWithTaints": "spec.hosts[].taints",
    },
    _KUBE_PROXY: {
        "clusterCIDR": "spec.network.podCIDR",
        "featureGates": "spec.kubernetes.featureGates",
        "hostnameOverride": "spec.hosts[].name",
        "mode": "spec.kubernetes.kubeProxy.mode",
    },
}

# Of its arguments kube-proxy copies those about the log over its configuration file, and throws the others away.
_PROXY_TAKES: Final = frozenset(
    {
        "v",
        "vmodule",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-text-split-stream",
        "logging-format",
    }
)
# The scheduler takes all others beside its configuration file.
_SCHEDULER_IGNORES: Final[Mapping[str, str]] = {
    "contention-profiling": "enableContentionProfiling",
    "kube-api-burst": "clientConnection.burst",
    "kube-api-content-type": "clientConnection.contentType",
    "kube-api-qps": "clientConnection.qps",
    "profiling": "enableProfiling",
}


def _owned(cluster: Cluster) -> Iterator[Finding]:
    kubernetes = cluster.spec.kubernetes
    for path, args in (
        (_API_SERVER, kubernetes.api_server.extra_args),
        (_CONTROLLER_MANAGER, kubernetes.controller_manager.extra_args),
        (_SCHEDULER, kubernetes.scheduler.extra_args),
        (_KUBELET, kubernetes.kubelet.extra_args),
        (_KUBE_PROXY, kubernetes.kube_proxy.extra_args),
        (_ETCD, cluster.spec.etcd.extra_args),
    ):
        yield from _taken((*path, "extraArgs"), args, _OWNED[path])
    for path, config in ((_KUBELET, kubernetes.kubelet.config), (_KUBE_PROXY, kubernetes.kube_proxy.config)):
        yield from _taken((*path, "config"), config, _OWNED_CONFIG[path])


def _taken(path: Path, names: Iterable[str], owned: Mapping[str, str]) -> Iterator[Finding]:
    for name in names:
        if name in owned:
            yield Finding(
                path=(*path, name),
                message=f"kubexm sets `{name}` itself, all over the cluster",
                hint=f"set {owned[name]} instead" if owned[name] else "remove this line",
            )


def _beside_a_file(cluster: Cluster) -> Iterator[Finding]:
    """What programs do not listen to since they have a configuration file, which kubexm gives them."""
    kubernetes = cluster.spec.kubernetes
    for name in kubernetes.kube_proxy.extra_args:
        if name not in _PROXY_TAKES and name not in _OWNED[_KUBE_PROXY]:
            yield Finding(
                path=(*_KUBE_PROXY, "extraArgs", name),
                message=f"kube-proxy has a configuration file, and beside it takes arguments about its log only: "
                f"`{name}` would do nothing",
                hint="write it under spec.kubernetes.kubeProxy.config, as KubeProxyConfiguration calls it",
            )
    for name in kubernetes.scheduler.extra_args:
        if name in _SCHEDULER_IGNORES:
            yield Finding(
                path=(*_SCHEDULER, "extraArgs", name),
                message=f"kube-scheduler has a configuration file, and ignores `{name}` beside it",
                hint=f"set {_SCHEDULER_IGNORES[name]} under spec.kubernetes.scheduler.config",
            )


def _anonymous(cluster: Cluster) -> Iterator[Finding]:
    server = cluster.spec.kubernetes.api_server
    taken = sorted(name for name in server.extra_args if name == "anonymous-auth" or name.startswith("oidc-"))
    if server.anonymous_access == "health" and taken:
        yield Finding(
            path=(*_API_SERVER, "extraArgs", taken[0]),
            message=f"with `{taken[0]}` the API server cannot keep callers with no identity to its health paths: "
            "they reach what Kubernetes allows by default",
            hint="say so with `anonymousAccess: all`, or shut them out with `anonymousAccess: none`",
            warning=True,
        )


RULES = (
    Rule(_owned),
    Rule(_beside_a_file),
    Rule(_anonymous, needs=(_API_SERVER,)),
)
