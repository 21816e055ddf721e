"""Where kubeadm's own files are on a control plane, and what the static pods are called."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = [
    "API_SERVER",
    "CONFIG",
    "CONTROLLER_MANAGER",
    "CRICTL",
    "DIGEST",
    "ETCD",
    "GENERATED",
    "MANIFESTS",
    "PATCHES",
    "PLACEHOLDER",
    "SCHEDULER",
    "manifest",
]

_KUBERNETES: Final = PurePosixPath("/etc/kubernetes")

CONFIG: Final = _KUBERNETES / "kubeadm.yaml"
PATCHES: Final = _KUBERNETES / "patches"
MANIFESTS: Final = _KUBERNETES / "manifests"
GENERATED: Final = PurePosixPath("/var/lib/kubexm/kubeadm")
"""Digests of what the static pods were last generated from."""

CRICTL: Final = "crictl --timeout 10s"
"""The runtime's own component has told it where the runtime answers."""

API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
ETCD: Final = "etcd"

DIGEST: Final = "kubexm.io/digest"
"""Label of each static pod, and of its sandbox: a digest of its manifest and of all files it reads when it starts."""
PLACEHOLDER: Final = "kubexm-digest-goes-here"


def manifest(component: str) -> PurePosixPath:
    """Where the static pod of a component is."""
    return MANIFESTS / f"{component}.yaml"
