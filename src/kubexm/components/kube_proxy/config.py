"""What kube-proxy is told: its settings, its unit, or the objects of its pods. Pure."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.documents import merged, yaml_stream, yaml_text
from kubexm.components.topology import endpoint, server_url
from kubexm.components.units import service_unit

__all__ = ["CONFIG", "KUBECONFIG", "UNIT", "health_port", "manifests", "settings", "unit_file"]

UNIT: Final = "kube-proxy"
CONFIG: Final = PurePosixPath("/etc/kubernetes/kube-proxy.yaml")
KUBECONFIG: Final = PurePosixPath("/etc/kubernetes/kube-proxy.conf")

_BINARY: Final = "/usr/local/bin/kube-proxy"
_HEALTH_PORT: Final = 10256
_POD_DIRECTORY: Final = "/var/lib/kube-proxy"
_LABELS: Final = {"k8s-app": "kube-proxy"}
_PLACE: Final = {"name": "kube-proxy", "namespace": "kube-system"}


def settings(cluster: Cluster, *, tunes_conntrack: bool, kubeconfig: str = str(KUBECONFIG)) -> dict[str, Any]:
    """The KubeProxyConfiguration, the user's settings laid over ours.

    `tunes_conntrack`: the size of the kernel's connection table can be written. Where it cannot, as in a container,
    kube-proxy must not try, or it exits.
    """
    kubernetes, pods = cluster.spec.kubernetes, cluster.spec.network.pod_cidr
    ours: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0" if pods[0].version == 4 else "::",  # noqa: S104 - what kube-proxy calls every address
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": ",".join(map(str, pods)),
        "detectLocalMode": "ClusterCIDR",
        "mode": kubernetes.kube_proxy.mode,
    }
    if not tunes_conntrack:
        ours["conntrack"] = {"maxPerCore": 0, "min": 0}
    if kubernetes.feature_gates:
        ours["featureGates"] = dict(sorted(kubernetes.feature_gates.items()))
    return merged(ours, kubernetes.kube_proxy.config)


def health_port(cluster: Cluster) -> int:
    """The port on which it says whether it is well; 0 if the user switched that off."""
    address = cluster.spec.kubernetes.kube_proxy.config.get("healthzBindAddress")
    if address is None:
        return _HEALTH_PORT
    port = str(address).rpartition(":")[2]
    return int(port) if port.isdigit() else _HEALTH_PORT if address else 0


def unit_file(cluster: Cluster, node: str) -> str:
    """The unit on one node."""
    return service_unit(
        "Kubernetes network proxy",
        (_BINARY, f"--config={CONFIG}", f"--hostname-override={node}", *_extra(cluster)),
        settings=("OOMScoreAdjust=-999", "NoNewPrivileges=yes"),
    )


def manifests(cluster: Cluster, image: str, *, tunes_conntrack: bool) -> str:
    """The objects that run it on every node."""
    told = yaml_text(settings(cluster, tunes_conntrack=tunes_conntrack, kubeconfig=f"{_POD_DIRECTORY}/kubeconfig.conf"))
    kubeconfig = yaml_text(_kubeconfig(cluster))
    rbac = "rbac.authorization.k8s.io"
    return yaml_stream(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _PLACE},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "kubeadm:node-proxier"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:node-proxier"},
                "subjects": [{"kind": "ServiceAccount", **_PLACE}],
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {**_PLACE, "labels": {"app": "kube-proxy"}},
                "data": {"config.conf": told, "kubeconfig.conf": kubeconfig},
            },
            _daemon_set(cluster, image, hashlib.sha256((told + kubeconfig).encode()).hexdigest()[:16]),
        ]
    )


def _daemon_set(cluster: Cluster, image: str, digest: str) -> dict[str, Any]:
    container = {
        "name": "kube-proxy",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            _BINARY,
            f"--config={_POD_DIRECTORY}/config.conf",
            "--hostname-override=$(NODE_NAME)",
            *(word.replace("$(", "$$(") for word in _extra(cluster)),
        ],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "kube-proxy", "mountPath": _POD_DIRECTORY},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
            {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {**_PLACE, "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                # Pods are made anew when their settings change.
                "metadata": {"labels": _LABELS, "annotations": {"kubexm.io/settings": digest}},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": "kube-proxy",
                    "hostNetwork": True,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": [
                        {"name": "kube-proxy", "configMap": {"name": "kube-proxy"}},
                        {
                            "name": "xtables-lock",
                            "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"},
                        },
                        {"name": "lib-modules", "hostPath": {"path": "/lib/modules"}},
                    ],
                },
            },
        },
    }


def _kubeconfig(cluster: Cluster) -> dict[str, Any]:
    """As the pod's own service account, by the way every host has to the API."""
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    server = server_url(endpoint(cluster), cluster.spec.control_plane_endpoint.port)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": {"certificate-authority": f"{account}/ca.crt", "server": server}}],
        "users": [{"name": "default", "user": {"tokenFile": f"{account}/token"}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }


def _extra(cluster: Cluster) -> list[str]:
    found = sorted(cluster.spec.kubernetes.kube_proxy.extra_args.items())
    return [f"--{name}={value}" for name, values in found for value in values]
