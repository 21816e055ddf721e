"""Giving hosts back: everything a cluster was is stopped, cleared and put back as it was before `create`.

Goes by what was kept on each host (originals, baseline), so that it works on half-made clusters, and touches nothing on
a host where nothing of kubexm is. The mark by which the host knows its cluster goes last, so that it can be repeated.
"""

from kubexm.components.removal.module import ClusterRemoval, unreached_hosts

__all__ = ["ClusterRemoval", "unreached_hosts"]
