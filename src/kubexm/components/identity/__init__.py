"""Which cluster this is: its UID, and the mark each host carries (decision 20), planned by Pki; and `ClusterRecord`, a
module listed after the control plane, which records what the cluster was brought to (decision 21).

A component that brought up a role on a host adds a node for it, with the steps before it as edges:

    g.add("marked", HostMarked(cluster=ctx.cluster.name, role="etcd"), on=members, after=[healthy])

The node must come after PKI_ISSUED, as all that brings up a role does. Roles are `etcd`, `controlPlane` and `worker`.
On the host it leaves /var/lib/kubexm/cluster.json; `host.marker.remove()` takes it away.
"""

from kubexm.components.identity.found import FoundCluster, found_cluster
from kubexm.components.identity.keys import CA_FINGERPRINT, CLUSTER_UID
from kubexm.components.identity.record import ClusterRecord
from kubexm.components.identity.steps import ClusterIdentified, HostMarked

__all__ = [
    "CA_FINGERPRINT",
    "CLUSTER_UID",
    "ClusterIdentified",
    "ClusterRecord",
    "FoundCluster",
    "HostMarked",
    "found_cluster",
]
