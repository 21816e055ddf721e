"""Nodes of the cluster: their labels, taints and roles, and that they are Ready. Leaves nothing on hosts."""

from kubexm.components.nodes.module import NodeSettings

__all__ = ["NodeSettings"]
