"""Nodes of the cluster: how they join, their labels, taints and roles, and that they are Ready.

Leaves nothing on hosts but what the kubelet does.
"""

from kubexm.components.nodes.module import JoinedNodes, NodeSettings

__all__ = ["JoinedNodes", "NodeSettings"]
