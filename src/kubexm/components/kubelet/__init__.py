"""The kubelet, under kubexm's own systemd unit and settings in both modes, and how nodes join with it.

`Kubelet` installs it everywhere and provides KUBELET_INSTALLED; a mode's modules start it and let nodes join:

    open_api(g, on=api_host(ctx), needs=SERVING)             # provides API_READY and JOINING_OPEN
    token = join_token(g, on=api_host(ctx))                  # runs only if some node needs it
    work = controllers_work(g, on=api_host(ctx))             # somebody signs certificates
    join_nodes(g, ctx, on=workers, token=token, after=work, needs=(…), provides=NODE_JOINED)

What it leaves on a host beyond files whose originals are kept: /etc/kubernetes/kubelet.conf, bootstrap-kubelet.conf
while a node joins, and everything the kubelet itself writes below /var/lib/kubelet (pods' volumes are mounted there),
/var/log/pods and /var/log/containers. Delete: stop the unit, unmount below /var/lib/kubelet, remove these.
"""

from kubexm.components.kubelet.config import cluster_dns, kubelet_conf, node_servers
from kubexm.components.kubelet.controllers import ControllersWork, controllers_work
from kubexm.components.kubelet.credentials import look_at_credentials, read_resources
from kubexm.components.kubelet.founding import FoundingObjectsApplied, open_api
from kubexm.components.kubelet.joining import KubeletAdmitted, NodeJoined
from kubexm.components.kubelet.module import Kubelet
from kubexm.components.kubelet.tasks import INPUTS, join_nodes, kubelet_running
from kubexm.components.kubelet.token import JOIN_TOKEN, JoinTokenMade, join_token

__all__ = [
    "INPUTS",
    "JOIN_TOKEN",
    "ControllersWork",
    "FoundingObjectsApplied",
    "JoinTokenMade",
    "Kubelet",
    "KubeletAdmitted",
    "NodeJoined",
    "cluster_dns",
    "controllers_work",
    "join_nodes",
    "join_token",
    "kubelet_conf",
    "kubelet_running",
    "look_at_credentials",
    "node_servers",
    "open_api",
    "read_resources",
]
