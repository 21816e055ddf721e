"""Ways to join modules into one plan: by milestones, by barriers, host by host, one batch of hosts after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Protocol

from kubexm.errors import GraphError
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


def rolling(fragment: ExecutionFragment, hosts: Sequence[str], batch: int = 1) -> ExecutionFragment:
    """The fragment once for each batch of hosts; the next batch's entry waits for the last one's exit.

    What the fragment provides for the cluster is reached with the last batch.
    """
    if batch < 1:
        raise GraphError("a rolling batch has at least one host")
    strangers = sorted({host for node in fragment.nodes for host in node.hosts} - set(hosts))
    if strangers:
        raise GraphError(f"a rolling fragment runs on hosts that are not rolled: {', '.join(strangers)}")
    resolved = resolve_milestones([fragment])
    batches = [tuple(hosts[start : start + batch]) for start in range(0, len(hosts), batch)]
    pieces = [_on(resolved, names, last=names is batches[-1]) for names in batches]
    return reduce(join_after, pieces, EMPTY)


def _on(fragment: ExecutionFragment, hosts: tuple[str, ...], *, last: bool) -> ExecutionFragment:
    suffix = f"@{hosts[0]}" if len(hosts) == 1 else f"@{hosts[0]}+{len(hosts) - 1}"
    here = {node.id: tuple(host for host in hosts if host in node.hosts) for node in fragment.nodes}
    later = {mark for node in fragment.nodes for mark in node.provides if not mark.per_host and not last}

    def renamed(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{one}{suffix}" if one in here else one for one in ids)

    def placed(node: ExecutionNode) -> ExecutionNode:
        own = here[node.id]
        shared = (one for one in node.after_same_host if not own or not set(own).isdisjoint(here.get(one, own)))
        return replace(
            node,
            id=f"{node.id}{suffix}",
            hosts=own,
            after=renamed(node.after),
            after_same_host=renamed(shared),
            provides=tuple(mark for mark in node.provides if mark not in later),
            needs=tuple(mark for mark in node.needs if mark not in later),
        )

    return ExecutionFragment(tuple(placed(node) for node in fragment.nodes))
