"""Planning work that takes nodes out of service: who goes when, and what is done around the work.

    rolling(batches(ctx, hosts), lambda batch: disruptive(ctx, work(batch), batch, task="x.y", operation="create"))

Pure, like all planning. What is found out only later (who is unavailable, which pods are there) is the steps' affair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from kubexm.components.drain.cordon import Cordoned, Uncordoned
from kubexm.components.drain.evictions import Drained
from kubexm.components.drain.proof import NodeServes, Soaked
from kubexm.components.networks import NO_PLUGIN
from kubexm.components.topology import control_planes, joined_control_planes, nodes
from kubexm.connector import Host
from kubexm.errors import PlanError
from kubexm.plan import ExecutionFragment, ExecutionNode, Milestone, Retry
from kubexm.runtime import TaskContext
from kubexm.task import Batch, FragmentBuilder

__all__ = ["ONLY_NODE", "batches", "disruptive"]

ONLY_NODE = "it is the only node"


def batches(ctx: TaskContext, hosts: Sequence[Host]) -> list[list[Host]]:
    """The hosts in the order of the file, as many at a time as `execution.maxUnavailable` allows."""
    size = limit(ctx)
    return [list(hosts[start : start + size]) for start in range(0, len(hosts), size)]


def limit(ctx: TaskContext) -> int:
    """How many nodes of the cluster may be unavailable at the same time."""
    return ctx.cluster.spec.execution.unavailable_nodes(len(nodes(ctx)))


def disruptive(
    ctx: TaskContext,
    work: ExecutionFragment,
    batch: Batch,
    *,
    task: str,
    operation: str,
    drain: bool = True,
    undrained: str = "",
    takes_out: Collection[str] = (),
    without_api: bool = False,
    soak: float = 0.0,
    provides: Sequence[Milestone] = (),
) -> ExecutionFragment:
    """The work on a batch of nodes, with each of them out of service meanwhile if there is anything to do on it.

    `takes_out`: which nodes of the plan disrupt, by the third part of their ids; all that change something if none are
    named. Each asks for the node to be cordoned (and drained) before it changes anything: where all of them are
    satisfied, nothing is taken out of service. Whatever happens, the node is uncordoned again. `undrained` says why
    nothing is drained, `provides` what is reached once the batch is back in service.
    """
    guarded = {node.id for node in work.nodes if _disrupts(node, takes_out)}
    if not guarded:
        raise PlanError(f"{task}: nothing in the work on {batch.name} takes its nodes out of service")
    alone = len(nodes(ctx)) == 1
    reason = "" if drain and not alone else ONLY_NODE if drain else undrained
    before, after = _actors(ctx, batch)
    g = FragmentBuilder(task, batch)
    cordon = g.add(
        "cordon",
        Cordoned(operation=operation, limit=limit(ctx), undrained=reason, without_api=without_api and not drain),
        on=batch.hosts,
        via=before,
        on_demand=True,
        retry=Retry(times=2, delay=2.0),
    )
    opening = g.build().nodes
    if drain and not alone:
        opening += tuple(_drained(task, host, batch, cordon.id, before) for host in batch.hosts)
    serves = g.add(
        "serves", NodeServes(ready=ctx.cluster.spec.network.plugin != NO_PLUGIN), on=batch.hosts, via=after, weight=2.0
    )
    back = g.add(
        "uncordon",
        Uncordoned(operation=operation),
        on=batch.hosts,
        via=after,
        after_same_host=[serves],
        closes=cordon,
        provides=() if soak else provides,
        retry=Retry(times=3, delay=2.0),
    )
    if soak:
        step = Soaked(seconds=soak)
        g.add("soak", step, on=batch.hosts, via=after, after_same_host=[back], provides=provides, timeout=soak + 300)
    exits = tuple(node.id for node in work.exit_nodes)
    closing = (replace(node, after_same_host=exits) if node.id == serves.id else node for node in g.build().nodes[1:])
    inner = (_asking(node, opening) if node.id in guarded else node for node in work.nodes)
    return ExecutionFragment((*opening, *inner, *closing))


def _drained(task: str, host: Host, batch: Batch, cordon: str, via: Sequence[Host]) -> ExecutionNode:
    """A node of its own for each host, so that they are drained side by side."""
    g = FragmentBuilder(task, Batch((host,)))
    step = Drained(node=host.name, batch=tuple(one.name for one in batch.hosts))
    g.add("drain", step, on=host, via=via, on_demand=True, weight=5.0)
    return replace(g.build().nodes[0], after_same_host=(cordon,))


def _asking(node: ExecutionNode, opening: Iterable[ExecutionNode]) -> ExecutionNode:
    """The node, asking on each of its hosts for that to be out of service."""
    asked = (one.id for one in opening if not set(one.hosts).isdisjoint(node.hosts))
    return replace(node, after_same_host=tuple(dict.fromkeys((*node.after_same_host, *asked))))


def _disrupts(node: ExecutionNode, takes_out: Collection[str]) -> bool:
    if takes_out:
        return node.id.split(".")[2] in takes_out
    return bool(node.step.writes()) and not node.on_demand


def _actors(ctx: TaskContext, batch: Batch) -> tuple[tuple[Host, ...], tuple[Host, ...]]:
    """The control planes to act from: before the work rather others, after it rather those that were just proven."""
    planes = joined_control_planes(ctx) or control_planes(ctx)
    mine = tuple(host for host in planes if host in batch.hosts)
    others = tuple(host for host in planes if host not in mine)
    return (*others, *mine), (*mine, *others)
