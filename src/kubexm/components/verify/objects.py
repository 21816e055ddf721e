"""What the probe brings into the cluster, all of it in one namespace of its own. Pure.

The pods run as nobody in particular and ask for no rights, so that no policy for pods stands in their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["LABEL", "PORT", "SERVICE_PORT", "VOLUME_POD", "Sample", "probe_objects", "sample_of"]

LABEL: Final = "kubexm.io/verify"
"""On the namespace of a probe: what finds one that was left behind."""
PORT: Final = 8080
SERVICE_PORT: Final = 80
VOLUME_POD: Final = "volume"
_ALL_PAIRS: Final = 8
"""Up to so many nodes each is probed from each; above that, each from its neighbours in a ring."""
_MOST: Final = 50
"""Nodes that are probed at most, spread over the list."""
_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True)
class Sample:
    """The nodes that are probed, and which of them must reach which."""

    nodes: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]

    @property
    def whole(self) -> bool:
        """True if each is probed from each."""
        return len(self.nodes) <= _ALL_PAIRS


def sample_of(nodes: Sequence[str]) -> Sample:
    """All nodes and all pairs where they are few, a ring over some where they are many."""
    chosen = tuple(nodes)
    if len(chosen) > _MOST:
        chosen = tuple(chosen[index * len(chosen) // _MOST] for index in range(_MOST))
    count = len(chosen)
    if count <= _ALL_PAIRS:
        return Sample(chosen, tuple((a, b) for a in range(count) for b in range(count) if a != b))
    return Sample(chosen, tuple(pair for a in range(count) for pair in ((a, (a + 1) % count), ((a + 1) % count, a))))


def probe_objects(
    namespace: str, sample: Sample, *, image: str, storage_class: str, taints: Sequence[str]
) -> list[dict[str, Any]]:
    """A pod on each node, a service over all of them, and a pod with a volume if there is a storage class."""
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {LABEL: namespace.rpartition("-")[2]}},
        },
        # Its own, since the default one is made a moment later, and pods are refused until then.
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "probe", "namespace": namespace},
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "probe", "namespace": namespace, "labels": {"app": "probe"}},
            "spec": {
                "selector": {"app": "probe"},
                "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": PORT, "protocol": "TCP"}],
            },
        },
    ]
    if storage_class:
        documents += _volume(namespace, image, storage_class, taints)
    return documents + [_pod(namespace, index, node, image) for index, node in enumerate(sample.nodes)]


def _pod(namespace: str, index: int, node: str, image: str) -> dict[str, Any]:
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["netexec", f"--http-port={PORT}", "--udp-port=-1"],
        "securityContext": _CONTAINER_SECURITY,
    }
    # Straight onto its node: this is about the network, and a scheduler that is busy must not stand in its way.
    spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    return _pod_of(f"probe-{index}", namespace, {"app": "probe"}, spec)


def _volume(namespace: str, image: str, storage_class: str, taints: Sequence[str]) -> list[dict[str, Any]]:
    keys = ["node-role.kubernetes.io/control-plane", *(taint.partition("=")[0].partition(":")[0] for taint in taints)]
    container = {
        "name": "volume",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "echo kubexm >/data/proof && sync && cat /data/proof"],
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "tolerations": [{"key": key, "operator": "Exists"} for key in dict.fromkeys(keys)],
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    return [claim, _pod_of(VOLUME_POD, namespace, {"app": "volume"}, spec)]


def _pod_of(name: str, namespace: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    common = {
        "serviceAccountName": "probe",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {**_SECURITY, "fsGroup": 1000},
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**common, **spec}}
