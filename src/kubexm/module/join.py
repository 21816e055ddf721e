"""Ways to join modules into one plan: by milestones, by barriers, host by host, one batch of hosts after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Protocol

from kubexm.connector import Host
from kubexm.module.base import Module
from kubexm.plan import (
    EMPTY,
    ExecutionFragment,
    ExecutionGraph,
    ExecutionNode,
    FailurePolicy,
    join_after,
    join_per_host,
    resolve_milestones,
)
from kubexm.runtime import ModuleContext, PipelineContext
from kubexm.task import Batch

__all__ = ["Joined", "link", "per_host", "rolling", "sequence"]


class _Plannable(Protocol):
    def fragment(self, ctx: ModuleContext) -> ExecutionFragment: ...


Part = type[Module] | Module | _Plannable


class Joined:
    """Several modules, joined in one way; planned when asked to."""

    def __init__(self, parts: Sequence[Part], how: Callable[[list[ExecutionFragment]], ExecutionFragment]) -> None:
        self._parts = parts
        self._how = how

    def fragment(self, ctx: ModuleContext) -> ExecutionFragment:
        """All parts planned and joined."""
        return self._how([(part() if isinstance(part, type) else part).fragment(ctx) for part in self._parts])

    def graph(self, ctx: PipelineContext, *, name: str, policy: FailurePolicy | None = None) -> ExecutionGraph:
        """The whole plan, validated. Needs still open are met by what any part provides earlier in the list."""
        fragment = resolve_milestones([self.fragment(ctx.for_module())])
        return ExecutionGraph.build(name, fragment, known_hosts=ctx.host_names, policy=policy)


def link(*parts: Part) -> Joined:
    """Side by side; each node waits only for the milestones it needs."""
    return Joined(parts, resolve_milestones)


def sequence(*parts: Part) -> Joined:
    """One after the other, with a full barrier in between: for where one is meant."""
    return Joined(parts, lambda fragments: reduce(join_after, fragments, EMPTY))


def per_host(*parts: Part) -> Joined:
    """Each host passes through the parts at its own pace."""
    return Joined(parts, lambda fragments: reduce(join_per_host, fragments, EMPTY))


def rolling(batches: Iterable[Sequence[Host]], part: Callable[[Batch], ExecutionFragment]) -> ExecutionFragment:
    """The fragment of each batch of hosts; the next batch's entry waits for the last one's exit.

    What the fragments provide for the cluster is reached with the last batch.
    """
    turns = [Batch(tuple(hosts)) for hosts in batches if hosts]
    pieces = [piece for turn in turns if (piece := resolve_milestones([part(turn)]))]
    turned = [*map(_not_yet, pieces[:-1]), *pieces[-1:]]
    nodes = [*turned[0].nodes] if turned else []
    for before, piece in pairwise(turned):  # not the whole before it: that would take longer with each batch
        nodes += join_after(before, piece).nodes[len(before.nodes) :]
    return ExecutionFragment(tuple(nodes))


def _not_yet(fragment: ExecutionFragment) -> ExecutionFragment:
    """The fragment without what it provides, and therefore needs, for the cluster."""
    later = {mark for node in fragment.nodes for mark in node.provides if not mark.per_host}

    def without(node: ExecutionNode) -> ExecutionNode:
        return replace(
            node,
            provides=tuple(mark for mark in node.provides if mark not in later),
            needs=tuple(mark for mark in node.needs if mark not in later),
        )

    return ExecutionFragment(tuple(map(without, fragment.nodes)))
