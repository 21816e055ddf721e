"""kube-proxy: what makes services reachable from every node. In pods where the control plane is, else under systemd.

In a cluster of binaries it leaves on each node: its unit, /etc/kubernetes/kube-proxy.{yaml,conf}, and in the kernel the
rules it made, which `kube-proxy --cleanup` (or a restart of the host) removes.
"""

from kubexm.components.kube_proxy.module import KubeProxy

__all__ = ["KubeProxy"]
