"""Verification: proof, not hope, that a cluster works.

What it brings into the cluster: a namespace `kubexm-verify-…` while it tries, removed in any case, and the ConfigMap
kubexm-verified in kube-system, which says what was proven. Nothing on hosts.
"""

from kubexm.components.verify.module import Verification

__all__ = ["Verification"]
