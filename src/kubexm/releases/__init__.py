"""What versions of Kubernetes, etcd and containerd contain and can do, as data: one file per minor.

Code asks for a capability and never compares version numbers, so a new minor is a new file and nothing else. Knows no
download location and nothing about clusters.
"""

from __future__ import annotations

from kubexm.releases.capabilities import (
    ContainerdCapabilities,
    EtcdCapabilities,
    KubernetesCapabilities,
    containerd,
    etcd,
    kubernetes,
)
from kubexm.releases.files import default_kubernetes, end_of_life, kubernetes_data, minors, parse_version

__all__ = [
    "ContainerdCapabilities",
    "EtcdCapabilities",
    "KubernetesCapabilities",
    "containerd",
    "default_kubernetes",
    "end_of_life",
    "etcd",
    "kubernetes",
    "kubernetes_data",
    "minors",
    "parse_version",
]
