"""Giving hosts back: everything a cluster was is stopped, cleared and put back as it was before `create`.

Goes by what was kept on each host (originals, baseline), so that it works on half-made clusters, and touches nothing on
a host where nothing of kubexm is. The mark by which the host knows its cluster goes last, so that it can be repeated.

A create that is rolled back on a host where nothing was before clears the network the same way (`NetworkCleared`).
"""

from kubexm.components.removal.module import ClusterRemoval, unreached_hosts
from kubexm.components.removal.steps import NetworkCleared
from kubexm.components.removal.tasks import network_cleared

__all__ = ["ClusterRemoval", "NetworkCleared", "network_cleared", "unreached_hosts"]
