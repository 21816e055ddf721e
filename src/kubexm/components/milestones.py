"""What the parts of a cluster wait for and give each other. The only thing components know of one another."""

from __future__ import annotations

from typing import Final

from kubexm.plan import Milestone

__all__ = [
    "API_READY",
    "API_SERVING",
    "BALANCER_READY",
    "CLUSTER_UP",
    "ETCD_QUORUM",
    "FIRST_NODES_READY",
    "HOST_READY",
    "IMAGES_PRESENT",
    "JOINING_OPEN",
    "KUBELET_INSTALLED",
    "KUBELET_RUNNING",
    "NODE_JOINED",
    "PKI_ISSUED",
    "RUNTIME_READY",
    "RUNTIME_STARTED",
]

PKI_ISSUED: Final = Milestone("PkiIssued")
"""The cluster's UID, every CA, certificate and kubeconfig is in the work directory."""
HOST_READY: Final = Milestone("HostReady", per_host=True)
"""The operating system is prepared: packages, modules, sysctl, names, time. Every host."""
RUNTIME_STARTED: Final = Milestone("RuntimeStarted", per_host=True)
"""containerd runs, so that images can be imported; all else wants RUNTIME_READY. Every node of Kubernetes."""
RUNTIME_READY: Final = Milestone("RuntimeReady", per_host=True)
"""containerd answers over CRI; CNI plugins, crictl and registries' settings are in place. Every node."""
IMAGES_PRESENT: Final = Milestone("ImagesPresent", per_host=True)
"""The images the roles of this node need are imported."""
KUBELET_INSTALLED: Final = Milestone("KubeletInstalled", per_host=True)
"""The kubelet, its unit and its certificates are in place, but it is not started yet. Every node."""
KUBELET_RUNNING: Final = Milestone("KubeletRunning", per_host=True)
"""The kubelet of a control plane runs, and registers with the API when that answers. Every control plane."""
BALANCER_READY: Final = Milestone("BalancerReady", per_host=True)
"""The host's own way to the API listens on 127.0.0.1. Every node that is no control plane, if the balancer is ours."""
ETCD_QUORUM: Final = Milestone("EtcdQuorum")
"""etcd answers with a quorum. Not provided where etcd is in static pods (`etcd.type: kubeadm`)."""
API_SERVING: Final = Milestone("ApiServerServing", per_host=True)
"""The host's own API server says /readyz. Every control plane."""
API_READY: Final = Milestone("ApiReady")
"""One API server at least says /readyz, so that manifests can be applied."""
JOINING_OPEN: Final = Milestone("JoiningOpen")
"""Nodes may join: RBAC for bootstrap tokens is there. Tokens themselves are made on demand."""
NODE_JOINED: Final = Milestone("NodeJoined", per_host=True)
"""The node is registered with the API and its kubelet runs from the settings it should. Every node."""
FIRST_NODES_READY: Final = Milestone("FirstNodesReady")
"""As many nodes are Ready as the cluster's own pods, DNS and storage, are to be spread over."""
CLUSTER_UP: Final = Milestone("ClusterUp")
"""Every node joined, is Ready and has its settings: what addons and hooks wait for."""
