"""kubexm: from a cluster.yaml and SSH access to a working Kubernetes cluster, and through its life."""

__version__ = "0.1.0"
