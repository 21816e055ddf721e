"""flannel: the network of pods, by vxlan or by plain routes.

What it leaves on each node, made by its pods: /etc/cni/net.d/10-flannel.conflist, /opt/cni/bin/flannel,
/run/flannel/subnet.env, /var/lib/cni, the interfaces flannel.N and flannel-v6.N (N is the VNI) and cni0, routes to
other nodes' pods, and the chains FLANNEL-FWD and FLANNEL-POSTRTG of iptables, or the tables flannel-ipv4 and
flannel-ipv6 of nftables. Delete: once no pod runs, remove these files, links and chains.
"""

from kubexm.components.flannel.module import Flannel
from kubexm.components.flannel.plugin import FLANNEL

__all__ = ["FLANNEL", "Flannel"]
