"""Steps about nodes: what is true of each, from the moment it joined until it is Ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key, Scope
from kubexm.components.api import (
    NODE,
    NODE_NOTE,
    FoundNode,
    KubeClient,
    NodeSetting,
    Ref,
    Selection,
    Workload,
    find_nodes,
    kube_client,
    node_of,
    pod_troubles,
    taint_text,
)
from kubexm.components.networks import NO_PLUGIN, plugin_named
from kubexm.errors import ApiConflict, ApiUnavailable, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, OUTCOME, Check, Resources, Step, resources

__all__ = ["NODE_UP", "NodeNetworked", "NodesReady", "NodesSet"]

NODE_UP: Final = Key[bool]("node-up", per_host=True)
"""The host joined and, if kubexm brings the network, has it: hosts that were lost on the way have no such value."""

_FOUND: Final = Key[Mapping[str, FoundNode]]("nodes-found", scope=Scope.STEP)
"""The nodes as precheck saw them, from then until something is set."""
_CONF: Final = "/etc/cni/net.d"
_SHOWN: Final = 3
_TRIES: Final = 20
_LOOK: Final = f'for f in {_CONF}/*.conf {_CONF}/*.conflist; do [ -s "$f" ] && exit 0; done; exit 44\n'
_AWAIT: Final = f"""n=0
until for f in {_CONF}/*.conf {_CONF}/*.conflist; do [ -s "$f" ] && break; done; [ -s "$f" ]; do
  n=$((n + 1)); [ "$n" -le {{tries}} ] || exit 44
  sleep 0.2
done
"""
_LAST_WORDS: Final = """for f in $(ls -t {logs} 2>/dev/null | head -n 2); do
  echo "$(basename "$(dirname "$f")"): $(tail -n 2 "$f" | cut -c 40-300 | tr '\\n' ' ')"
done
journalctl -q --no-pager -o cat -u kubelet -n 500 2>/dev/null | grep -e '^E' | grep -i -e {name} -e image -e network \\
  | tail -n 2 | cut -c 1-400
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetworked(Step):
    """This node joined, and the network plugin has put its configuration in place, so that pods can start."""

    plugin: str
    """As the file names it. `none`: the user brings the network, and nothing is waited for."""
    patience: float = 300.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for a configuration of a network."""
        if self.plugin == NO_PLUGIN or await ctx.host.command.succeeds(_LOOK):
            return Check(True, values={NODE_UP: True})
        return Check(False, reason=f"there is no network configuration in {_CONF} yet")

    async def run(self, ctx: StepContext) -> None:
        """Waits for it."""
        script = _AWAIT.format(tries=round(self.patience * 5))
        result = await ctx.host.command.read(
            script, check=False, long=True, within=self.patience + 60, display="wait for the network configuration"
        )
        if not result.ok:
            workloads = _workloads(self.plugin)
            logs = " ".join(f"/var/log/pods/{one.namespace}_{one.name}-*/*/*.log" for one in workloads)
            script = _LAST_WORDS.format(logs=logs, name=self.plugin)
            last = (await ctx.host.command.read(script, check=False, display="look at the last words")).text
            where = " and ".join(f"`kubectl -n {one} get pods -o wide`" for one in _namespaces(self.plugin))
            raise StepError(
                f"the network plugin put no configuration into {_CONF} within {self.patience:g} s"
                + "".join(f"\n  {line}" for line in last.splitlines()),
                host=ctx.host.name,
                hint=f"{where} and `journalctl -u kubelet` on this host tell more",
            )

    def reads(self) -> Resources:
        """The configurations of networks."""
        return resources(f"file:{_CONF}/*") if self.plugin != NO_PLUGIN else NOTHING

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """That this host got here."""
        return (NODE_UP,)

    def describe(self) -> str:
        """The state."""
        return "node has its network" if self.plugin != NO_PLUGIN else "node joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSet(Step):
    """Every node that came up has the labels and taints the file gives it, and none it gave it earlier."""

    nodes: tuple[NodeSetting, ...]
    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for all nodes at once."""
        found = await find_nodes(kube_client(ctx))
        ctx.cache.set(_FOUND, found or {})
        if found is None:
            return Check(False, reason="the API does not answer yet")
        wanted = _came_up(ctx, self.nodes)
        missing = [node.name for node in wanted if node.name not in found]
        faults = {
            node.name: wrong for node in wanted if node.name in found and (wrong := found[node.name].faults(node))
        }
        if not faults and not missing:
            return Check(True)
        lines = [f"not registered yet: {_few(missing)}"] if missing else []
        lines += [f"{name}: {', '.join(wrong)}" for name, wrong in faults.items()]
        return Check(
            False, reason=_few(lines, "; "), diff="\n".join(_diff(found[n.name], n) for n in wanted if n.name in faults)
        )

    async def run(self, ctx: StepContext) -> None:
        """Sets what differs on each node that is there, and waits for the others; StepError names all that never come.

        Taints come first, since the note that says which are ours comes with the labels.
        """
        client, left = kube_client(ctx, patience=self.patience), _came_up(ctx, self.nodes)
        until = time.monotonic() + self.patience
        # What precheck has just found does, but once: a second try asks anew.
        found = ctx.value(_FOUND) if ctx.has(_FOUND) else {}
        ctx.cache.set(_FOUND, {})
        while True:
            found = found or await find_nodes(client, patience=self.patience) or {}
            wrong = [node for node in left if node.name in found and found[node.name].faults(node)]
            await asyncio.gather(*(_set_taints(client, node, found[node.name]) for node in wrong))
            await client.apply([_document(node, found[node.name]) for node in wrong])
            left = [node for node in left if node.name not in found]
            if not left:
                return
            if time.monotonic() > until:
                missing = [node.name for node in left]
                raise StepError(
                    f"not registered with the API after {self.patience:g} s: {', '.join(missing)}",
                    host=ctx.host.name,
                    hint=f"`journalctl -u kubelet` on {missing[0]} says why its kubelet cannot register",
                )
            await asyncio.sleep(0.5)
            found = {}

    def may_use(self) -> tuple[Key[Any], ...]:
        """Which nodes came up in this run."""
        return (NODE_UP,)

    def reads(self) -> Resources:
        """The nodes."""
        return resources("api:nodes")

    def writes(self) -> Resources:
        """The nodes."""
        return resources("api:nodes")

    def describe(self) -> str:
        """The state."""
        return f"labels and taints of {len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReady(Step):
    """Every node that came up is Ready, or at least registered where the user brings the network."""

    nodes: tuple[str, ...]
    plugin: str
    """As the file names it. `none`: the user brings the network, and without one no node is Ready."""
    patience: float = 300.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for all nodes at once."""
        found = await find_nodes(kube_client(ctx))
        if found is None:
            return Check(False, reason="the API does not answer yet")
        waiting = self._waiting(ctx, found)
        return Check(False, reason=f"not Ready yet: {_few(waiting)}") if waiting else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Waits until they are."""
        client = kube_client(ctx)
        counted = _counted(ctx, self.nodes)
        names = [name for name in self.nodes if name in counted]
        if self.plugin != NO_PLUGIN and names and await self._watched(client, names):
            return
        found = await find_nodes(client, patience=self.patience) or {}
        waiting = self._waiting(ctx, found)
        if waiting:
            raise StepError(
                f"not Ready after {self.patience:g} s: " + "; ".join(await self._reasons(client, waiting, found)),
                host=ctx.host.name,
                hint=f"`kubectl describe node {waiting[0]}` and `journalctl -u kubelet` on it tell more",
            )

    async def _watched(self, client: KubeClient, names: Sequence[str]) -> bool:
        """True once all of these nodes are Ready, False if that takes too long."""

        def ready(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> bool:
            return all(("", name) in found and node_of(found["", name]).ready for name in names)

        try:
            return await client.until(Selection(kind=NODE), ready, within=self.patience, patience=self.patience)
        except ApiUnavailable:
            return False

    async def _reasons(self, client: KubeClient, waiting: Sequence[str], found: Mapping[str, FoundNode]) -> list[str]:
        lines = []
        for name in waiting[:_SHOWN]:
            node = found.get(name)
            lines.append(f"{name}: {node.message if node is not None else 'it is not registered'}")
            for namespace in _namespaces(self.plugin):
                lines += await pod_troubles(client, namespace, fields=f"spec.nodeName={name}")
        return [*lines, *([f"and {len(waiting) - _SHOWN} more"] if len(waiting) > _SHOWN else [])]

    def _waiting(self, ctx: StepContext, found: Mapping[str, FoundNode]) -> list[str]:
        counted = _counted(ctx, self.nodes)
        ready = {name for name, node in found.items() if node.ready or self.plugin == NO_PLUGIN}
        return [name for name in self.nodes if name in counted and name not in ready]

    def may_use(self) -> tuple[Key[Any], ...]:
        """Which nodes came up in this run."""
        return (NODE_UP,)

    def reads(self) -> Resources:
        """The nodes, whose states change by themselves, and with whatever is done to hosts."""
        return resources("api:nodes", OUTCOME)

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return f"{len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''} Ready"


def _workloads(plugin: str) -> tuple[Workload, ...]:
    known = plugin_named(plugin)
    return () if known is None else known.workloads


def _namespaces(plugin: str) -> tuple[str, ...]:
    """Where the plugin's pods are."""
    return tuple(dict.fromkeys(workload.namespace for workload in _workloads(plugin)))


def _counted(ctx: StepContext, names: Iterable[str]) -> set[str]:
    """Of these nodes those that came up in this run; all of them before that is known.

    Asked ahead of its turn, only a cluster where every node is well satisfies; hosts that were lost on the way are left
    out when the turn has come. So these steps may use these values and do not gather them: that would keep them from
    being read ahead.
    """
    up = ctx.values(NODE_UP)
    return {name for name in names if name in up or not up}


def _came_up(ctx: StepContext, nodes: Sequence[NodeSetting]) -> list[NodeSetting]:
    counted = _counted(ctx, (node.name for node in nodes))
    return [node for node in nodes if node.name in counted]


def _document(node: NodeSetting, found: FoundNode) -> dict[str, Any]:
    """With its UID, so that a node that went in the meantime is not made anew."""
    metadata = {"name": node.name, "uid": found.uid, "labels": dict(node.labels), "annotations": {NODE_NOTE: node.note}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


async def _set_taints(client: KubeClient, node: NodeSetting, found: FoundNode) -> None:
    """Sets what the file says and removes what it said once; others' taints stay, also those that come meanwhile."""
    more = [taint for taint in node.taints if taint not in found.taints]
    gone = {_place(taint) for taint in (*more, *found.stale_taints(node))}
    if not gone:
        return
    ref = Ref(NODE.group, NODE.kind, "", node.name, NODE.version)
    for _ in range(_TRIES):
        now = await client.get(ref)
        kept = [taint for taint in now["spec"].get("taints") or () if _place(taint_text(taint)) not in gone]
        version = now["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": [*kept, *map(_taint, more)]}}
        try:
            await client.patch(ref, patch)
        except ApiConflict:
            continue  # somebody changed the node in between: kubelets and controllers do all the time
        return
    raise StepError(
        f"node {node.name} was changed by somebody else {_TRIES} times while its taints were set",
        hint="find out who changes it, `kubectl get node -o yaml --show-managed-fields`, and run this again",
    )


def _taint(text: str) -> dict[str, str]:
    """A taint as the API has it."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _place(taint: str) -> str:
    """What a taint is removed by: its key and effect."""
    head, _, effect = taint.rpartition(":")
    return f"{head.partition('=')[0]}:{effect}"


def _diff(found: FoundNode, wanted: NodeSetting) -> str:
    labels = [(key, value) for key, value in wanted.labels if found.labels.get(key) != value]
    stale = sorted(found.noted("labels") - {key for key, _ in wanted.labels})
    changed = [
        f"-label {key}={found.labels[key]}" for key in (*stale, *(key for key, _ in labels)) if key in found.labels
    ]
    changed += [f"-taint {taint}" for taint in found.stale_taints(wanted)]
    changed += [f"+label {key}={value}" for key, value in labels]
    changed += [f"+taint {taint}" for taint in wanted.taints if taint not in found.taints]
    return "\n".join((f"--- node {wanted.name} (now)", f"+++ node {wanted.name}", *changed)) if changed else ""


def _few(names: Sequence[str], separator: str = ", ") -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return separator.join(names[:_SHOWN]) + rest
