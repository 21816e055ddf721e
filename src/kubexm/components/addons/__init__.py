"""Addons: the user's own manifests and helm charts, and commands once the cluster is up.

What it leaves on the control plane that was asked: helm, packed charts in /var/lib/kubexm/addons, helm's caches in
/run/kubexm/helm. What hooks leave is the user's business.
"""

from kubexm.components.addons.module import Addons

__all__ = ["Addons"]
