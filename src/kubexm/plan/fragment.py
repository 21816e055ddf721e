"""A piece of a plan: some nodes, not yet joined with the rest. Entry and exit nodes are computed, never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

from kubexm.errors import GraphError
from kubexm.plan.node import ExecutionNode, Milestone

__all__ = ["EMPTY", "ExecutionFragment", "join_after", "join_per_host", "resolve_milestones"]


@dataclass(frozen=True, slots=True)
class ExecutionFragment:
    """Nodes in reading order. The empty fragment is the identity of every way of joining."""

    nodes: tuple[ExecutionNode, ...] = ()

    @property
    def entry_nodes(self) -> tuple[ExecutionNode, ...]:
        """The nodes that, on some host at least, wait for nothing inside the fragment that is sure to run."""
        certain = {node.id for node in self.nodes if not node.on_demand}
        first = _first_on_hosts(self)
        return tuple(
            node for node in self.nodes if certain.isdisjoint(node.after) and (first[node.id] or not node.hosts)
        )

    @property
    def exit_nodes(self) -> tuple[ExecutionNode, ...]:
        """The nodes that, on some host at least, nothing inside the fragment waits for.

        On-demand nodes never are: they may not run at all. For the same reason nothing is waited for by them alone.
        """
        certain = [node for node in self.nodes if not node.on_demand]
        awaited = {other for node in certain for other in node.after}
        last = {name for names in _last_on_hosts(self).values() for name in names}
        return tuple(node for node in certain if node.id not in awaited and (node.id in last or not node.hosts))

    def __add__(self, other: ExecutionFragment) -> ExecutionFragment:
        """Both, side by side."""
        return ExecutionFragment(self.nodes + other.nodes) if other.nodes else self

    def __bool__(self) -> bool:
        return bool(self.nodes)


EMPTY = ExecutionFragment()


def join_after(first: ExecutionFragment, second: ExecutionFragment) -> ExecutionFragment:
    """A full barrier: no entry of the second starts before every exit of the first is done on all its hosts."""
    if not first or not second:
        return first or second
    exits = tuple(node.id for node in first.exit_nodes)
    entries = {node.id for node in second.entry_nodes}
    joined = tuple(
        replace(node, after=_extended(node.after, exits)) if node.id in entries else node for node in second.nodes
    )
    return ExecutionFragment(first.nodes + joined)


def join_per_host(first: ExecutionFragment, second: ExecutionFragment) -> ExecutionFragment:
    """Each host passes from the first to the second on its own; hosts only the second has wait for nobody."""
    exits = _last_on_hosts(first)
    entries = _first_on_hosts(second)

    def joined(node: ExecutionNode) -> ExecutionNode:
        upstream = [exit_id for host in entries[node.id] for exit_id in exits.get(host, ())]
        return replace(node, after_same_host=_extended(node.after_same_host, upstream)) if upstream else node

    return ExecutionFragment(first.nodes + tuple(joined(node) for node in second.nodes))


def _last_on_hosts(fragment: ExecutionFragment) -> dict[str, list[str]]:
    """For each host, the nodes that nothing on the same host waits for."""
    certain = [node for node in fragment.nodes if not node.on_demand]
    awaited: dict[str, set[str]] = {}
    for node in certain:
        for other in (*node.after, *node.after_same_host):
            awaited.setdefault(other, set()).update(node.hosts)
    found: dict[str, list[str]] = {}
    for node in certain:
        for host in node.hosts:
            if host not in awaited.get(node.id, ()):
                found.setdefault(host, []).append(node.id)
    return found


def _first_on_hosts(fragment: ExecutionFragment) -> dict[str, list[str]]:
    """For each node, the hosts on which it waits for nothing that is on the same host."""
    certain = {node.id: frozenset(node.hosts) for node in fragment.nodes if not node.on_demand}
    found: dict[str, list[str]] = {}
    for node in fragment.nodes:
        upstream = [certain[other] for other in (*node.after, *node.after_same_host) if other in certain]
        found[node.id] = [host for host in node.hosts if not any(host in hosts for hosts in upstream)]
    return found


def resolve_milestones(fragments: Iterable[ExecutionFragment]) -> ExecutionFragment:
    """The fragments side by side, each need turned into an edge from its one provider earlier in the list.

    A need without any provider here stays open, for whoever joins the result with more; one whose provider comes later,
    or that several provide, is an error.
    """
    merged = reduce(ExecutionFragment.__add__, fragments, EMPTY)
    providers: dict[tuple[Milestone, str], ExecutionNode] = {}
    linked: list[ExecutionNode] = []
    for node in merged.nodes:
        linked.append(_linked(node, providers))
        for place in _provided(node):
            if (other := providers.get(place)) is not None:
                where = f" on {place[1]}" if place[1] else ""
                raise GraphError(
                    f"{place[0]}{where} is provided twice, by {other.id} and {node.id}",
                    hint="a milestone has exactly one provider: let one of them need it instead",
                )
            providers[place] = node
    _refuse_late_providers(linked, providers)
    return ExecutionFragment(tuple(linked))


def _places(milestone: Milestone, node: ExecutionNode) -> list[tuple[Milestone, str]]:
    return [(milestone, host) for host in node.hosts] if milestone.per_host else [(milestone, "")]


def _provided(node: ExecutionNode) -> list[tuple[Milestone, str]]:
    return [place for milestone in node.provides for place in _places(milestone, node)]


def _linked(node: ExecutionNode, providers: dict[tuple[Milestone, str], ExecutionNode]) -> ExecutionNode:
    after, same = node.after, node.after_same_host
    for milestone in node.needs:
        found = [providers[place].id for place in _places(milestone, node) if place in providers]
        if milestone.per_host:
            same = _extended(same, found)
        else:
            after = _extended(after, found)
    return (
        node
        if after == node.after and same == node.after_same_host
        else replace(node, after=after, after_same_host=same)
    )


def _refuse_late_providers(
    nodes: Iterable[ExecutionNode], providers: dict[tuple[Milestone, str], ExecutionNode]
) -> None:
    for node in nodes:
        waits = {*node.after, *node.after_same_host}
        for milestone in node.needs:
            for place in _places(milestone, node):
                provider = providers.get(place)
                if provider is not None and provider.id not in waits and provider.id != node.id:
                    raise GraphError(
                        f"{node.id} needs {milestone}, which {provider.id} provides only later in the list",
                        hint="list the provider's module or task before the one that needs it",
                    )


def _extended(edges: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*edges, *more)))
