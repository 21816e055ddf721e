"""The container runtime of every node: containerd, runc, the CNI plugins and crictl, and its access to registries.

What it leaves on a host, besides files whose originals are kept: containerd's own data (`containerRuntime.dataDir`),
/run/containerd, and with running pods their shims (`containerd-shim-runc-v2`), mounts and cgroups.
"""

from kubexm.components.containerd.module import ContainerRuntime

__all__ = ["ContainerRuntime"]
