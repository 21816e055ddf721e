"""The kubelet, under kubexm's own systemd unit and settings in both modes, and how nodes join with it.

`Kubelet` installs it everywhere and provides KUBELET_INSTALLED. A mode's module brings up control planes, each with its
kubelet; all other nodes then join with a token (components/nodes):

    certificate = certified(g, ctx, on=hosts)                # signed here: nobody else may be able to yet
    g.add("kubelet", kubelet_running(ctx.cluster), on=hosts, after_same_host=[certificate], provides=KUBELET_RUNNING, …)
    open_api(g, ctx)                                         # provides API_READY and JOINING_OPEN

What it leaves on a host beyond files whose originals are kept: /etc/kubernetes/kubelet.conf, bootstrap-kubelet.conf
while a node joins, and everything the kubelet itself writes below /var/lib/kubelet (pods' volumes are mounted there),
/var/log/pods and /var/log/containers. Delete: stop the unit, unmount below /var/lib/kubelet, remove these.
"""

from kubexm.components.kubelet.certified import KubeletCertified
from kubexm.components.kubelet.config import cluster_dns, node_servers
from kubexm.components.kubelet.controllers import ControllersWork, controllers_work
from kubexm.components.kubelet.founding import FoundingObjectsApplied, open_api
from kubexm.components.kubelet.joining import (
    KubeletAdmitted,
    NodeJoined,
    NodeRegistered,
    ask_for_node,
    await_registration,
)
from kubexm.components.kubelet.module import Kubelet
from kubexm.components.kubelet.tasks import INPUTS, certified, kubelet_running
from kubexm.components.kubelet.token import JOIN_TOKEN, JoinTokenMade, join_token

__all__ = [
    "INPUTS",
    "JOIN_TOKEN",
    "ControllersWork",
    "FoundingObjectsApplied",
    "JoinTokenMade",
    "Kubelet",
    "KubeletAdmitted",
    "KubeletCertified",
    "NodeJoined",
    "NodeRegistered",
    "ask_for_node",
    "await_registration",
    "certified",
    "cluster_dns",
    "controllers_work",
    "join_token",
    "kubelet_running",
    "node_servers",
    "open_api",
]
