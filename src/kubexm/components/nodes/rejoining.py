"""Nodes that somebody deleted from the API while their kubelets ran: a kubelet registers once, when it starts.

A node that comes back gets another range of pod addresses. So before its kubelet is started again, its pods on the pod
network, which the cluster has given up, are removed, and what the network plugin keeps on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Key, Scope
from kubexm.components.api import find_nodes, kube_client
from kubexm.components.kubelet import INPUTS, ask_for_node, await_registration
from kubexm.components.networks import plugin_of
from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources

__all__ = ["NODES_LISTED", "NodeStillRegistered", "NodesListed", "still_registered"]

NODES_LISTED: Final[Key[list[str]]] = Key("nodes-listed", expires=True)
"""The names of all nodes the API knew when this run asked."""

_UNIT: Final = "kubelet.service"

_RESTARTED: Final[Key[bool]] = Key("node-restarted", scope=Scope.STEP)

# The journal may have been rotated since: a kubelet that has run for two minutes counts as registered.
_REGISTERED: Final = """[ "$(systemctl is-active kubelet)" = active ] || exit 44
since=$(systemctl show -p ActiveEnterTimestampMonotonic --value kubelet)
read -r up _ </proc/uptime
if [ $((${up%.*} - since / 1000000)) -ge 120 ]; then exit 0; fi
i=$(systemctl show -p InvocationID --value kubelet)
journalctl -q --no-pager -o cat _SYSTEMD_INVOCATION_ID="$i" 2>/dev/null \\
  | grep -q -e 'Successfully registered node' -e 'Node was previously registered' || exit 44
"""

_LEAVE: Final = """systemctl stop kubelet || exit 1
crictl="crictl --timeout 60s"
all=$($crictl pods -q --no-trunc) || exit 1
gone=$({{ grep -h '' /var/lib/cni/networks/*/* 2>/dev/null | tr -d '\\r'; for n in {namespaces}; do
  $crictl pods -q --no-trunc --namespace "$n"; done; }} | grep -E -x '[0-9a-f]{{64}}' | sort -u)
for id in $gone; do case $all in *"$id"*) $crictl rmp -f "$id" || exit 1;; esac; done
for l in {links}; do if [ -e "/sys/class/net/$l" ]; then ip link delete "$l" || exit 1; fi; done
for d in {directories}; do rm -rf -- "$d"/* || exit 1; done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesListed(Step):
    """What nodes the API knows, for hosts that cannot ask it themselves."""

    patience: float = 60.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for all nodes at once."""
        found = await find_nodes(kube_client(ctx))
        if found is None:
            return Check(False, reason="the API does not answer yet")
        return Check(True, values={NODES_LISTED: sorted(found)})

    async def run(self, ctx: StepContext) -> None:
        """Waits for the API."""
        if await find_nodes(kube_client(ctx), patience=self.patience) is None:
            raise StepError(
                f"the API did not answer within {self.patience:g} s",
                host=ctx.host.name,
                hint="`kubexm verify` says what is wrong with the control plane",
            )

    def reads(self) -> Resources:
        """The nodes."""
        return resources("api:nodes")

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """The names."""
        return (NODES_LISTED,)

    def describe(self) -> str:
        """What it reads."""
        return "list of nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStillRegistered(Step):
    """The API knows this node, or its kubelet is yet to register: nobody deleted it."""

    settle: ClassVar[float] = 60.0

    control_plane: bool = False
    """The host asks its own API server; others go by the list of nodes."""
    namespaces: tuple[str, ...] = ()
    """Where the pods of the network plugin are."""
    links: tuple[str, ...] = ()
    """Its interfaces."""
    directories: tuple[str, ...] = ()
    """Where it keeps what it knows of this node."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks whether the kubelet has registered, then asks whether the API knows the node."""
        if not await ctx.host.command.succeeds(_REGISTERED) or await self._is_known(ctx):
            return Check(True)
        return Check(False, reason="the node was deleted from the API while its kubelet ran")

    async def run(self, ctx: StepContext) -> None:
        """Ends pods the cluster has given up, restarts the kubelet and waits until it has registered."""
        if self.namespaces:
            script = _LEAVE.format(
                namespaces=shell(*self.namespaces), links=shell(*self.links), directories=shell(*self.directories)
            )
            await ctx.host.command.run(script, within=300, long=True, display="end the pods of a deleted node")
        await ctx.host.services.restart(_UNIT, INPUTS)
        ctx.cache.set(_RESTARTED, True)  # the list of nodes is older than that
        await await_registration(ctx)

    async def _is_known(self, ctx: StepContext) -> bool:
        if self.control_plane:
            result = await ask_for_node(ctx)
            # Without an answer nothing is known to be missing; who waits for the node reports that.
            return not result.ok or bool(result.text.strip())
        return ctx.host.name in ctx.value(NODES_LISTED) or ctx.has(_RESTARTED)

    def reads(self) -> Resources:
        """The nodes and the kubelet."""
        return resources("api:nodes", f"unit:{_UNIT}")

    def writes(self) -> Resources:
        """The node, the kubelet and what the network plugin has on the host."""
        network = [f"file:{directory}/*" for directory in self.directories]
        return resources(f"unit:{_UNIT}", "api:nodes", *network)

    def consumes(self) -> tuple[Key[Any], ...]:
        """The list of nodes."""
        return () if self.control_plane else (NODES_LISTED,)

    def describe(self) -> str:
        """The state."""
        return "node still registered"


def still_registered(cluster: Cluster, *, control_plane: bool) -> NodeStillRegistered:
    """The step for hosts of this cluster, with what is to go of its network."""
    plugin = plugin_of(cluster)
    if plugin is None:
        return NodeStillRegistered(control_plane=control_plane)
    return NodeStillRegistered(
        control_plane=control_plane,
        namespaces=tuple(dict.fromkeys(workload.namespace for workload in plugin.workloads)),
        links=plugin.links(cluster),
        directories=plugin.directories,
    )
