"""A control plane in static pods, as kubeadm lays it out.

What it leaves on a host: /etc/kubernetes (kubeadm.yaml, patches, manifests, config, pki, *.conf), the audit log, the
data directory of a stacked etcd, /var/lib/kubexm/kubeadm; but for kubelet.conf, log and data all is written through the
runner, which keeps originals. Delete: stop the kubelet, remove the pods' sandboxes through the runtime, then these.
"""

from kubexm.components.kubeadm.module import KubeadmControlPlane

__all__ = ["KubeadmControlPlane"]
