"""What comes before what: an order of the nodes, and which units of one node are done before which of another.

The unit of scheduling is (node, host), so two nodes may be in order on some hosts and not on others. Knows edges and
hosts only.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubexm.plan.node import ExecutionNode

__all__ = ["Precedence", "ordered"]


def ordered(nodes: Sequence[ExecutionNode]) -> list[ExecutionNode]:
    """The nodes of an acyclic graph so that each follows all it waits for; otherwise in the order given."""
    place = {node.id: index for index, node in enumerate(nodes)}
    left = [len({*node.after, *node.after_same_host}) for node in nodes]
    down: dict[str, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for other in {*node.after, *node.after_same_host}:
            down[other].append(index)
    ready = [place[node.id] for node, waits in zip(nodes, left, strict=True) if not waits]
    heapq.heapify(ready)
    result: list[ExecutionNode] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        result.append(node)
        for index in down[node.id]:
            left[index] -= 1
            if not left[index]:
                heapq.heappush(ready, index)
    return result


@dataclass(slots=True)
class _Before:
    """Which hosts of a maker are done before the units of some node."""

    every: set[str] = field(default_factory=set)
    """Before every unit."""
    same: set[str] = field(default_factory=set)
    """Before the unit on that very host."""
    single: dict[str, set[str]] = field(default_factory=dict)
    """Before the unit on one host, beyond the two above."""

    def some(self) -> set[str]:
        """Done once all units of the node are."""
        return self.every.union(self.same, *self.single.values())

    def has(self, host: str, own: str) -> bool:
        """True if the maker on `host` is done before the unit on the node's `own` host."""
        return host in self.every or (host == own and host in self.same) or host in self.single.get(own, ())


class Precedence:
    """Which units are done before which, for the nodes of an acyclic graph; worked out for each maker once.

    A node on demand may not run at all: it holds up only those that wait for it themselves, and passes nothing on.
    """

    def __init__(self, nodes: Sequence[ExecutionNode]) -> None:
        self._nodes = ordered(nodes)
        self._hosts = {node.id: frozenset(node.hosts) for node in nodes}
        self._groups = {node.id: self._grouped(node) for node in self._nodes}
        self._known: dict[str, dict[str, _Before]] = {}

    def not_before_all(self, maker: ExecutionNode, node: ExecutionNode) -> list[str]:
        """The maker's hosts that are not sure to be done when some unit of the node starts."""
        before = self._before(maker).get(node.id, _Before())
        doubtful = [host for host in maker.hosts if host not in before.every]
        return [host for host in doubtful if not all(before.has(host, own) for own in node.hosts)]

    def before_same_host(self, maker: ExecutionNode, node: ExecutionNode) -> list[str]:
        """The node's hosts on which the maker is done before it."""
        before = self._before(maker).get(node.id, _Before())
        return [host for host in node.hosts if before.has(host, host)]

    def _grouped(self, node: ExecutionNode) -> list[tuple[tuple[str, ...], list[str]]]:
        """The node's hosts by the upstream nodes they wait for on the same host."""
        if not node.after_same_host:
            return []
        if all(self._hosts[node.id] <= self._hosts[other] for other in node.after_same_host):
            return [(node.after_same_host, list(node.hosts))] if node.hosts else []
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for host in node.hosts:
            groups[tuple(other for other in node.after_same_host if host in self._hosts[other])].append(host)
        return list(groups.items())

    def _before(self, maker: ExecutionNode) -> dict[str, _Before]:
        found = self._known.get(maker.id)
        if found is None:
            found = {}
            sure = {maker.id: _Before(same=set(maker.hosts))}
            for node in self._nodes:
                if node.id != maker.id and (before := self._of(node, sure)) is not None:
                    found[node.id] = before
                    if not node.on_demand and not maker.on_demand:
                        sure[node.id] = before
            self._known[maker.id] = found
        return found

    def _of(self, node: ExecutionNode, found: dict[str, _Before]) -> _Before | None:
        if not any(other in found for other in (*node.after, *node.after_same_host)):
            return None
        result = _Before()
        for other in node.after:
            if other in found:
                result.every |= found[other].some()
        groups = [
            (hosts, [found[other] for other in upstream if other in found]) for upstream, hosts in self._groups[node.id]
        ]
        common = [set[str]().union(*(before.every for before in upstream)) for _, upstream in groups]
        if common:
            result.every |= set.intersection(*common)
        for (hosts, upstream), shared in zip(groups, common, strict=True):
            result.same.update(host for before in upstream for host in before.same.intersection(hosts))
            self._add_single(result, hosts, upstream, shared - result.every)
        return result

    def _add_single(self, result: _Before, hosts: list[str], upstream: list[_Before], shared: set[str]) -> None:
        if not shared and not any(before.single for before in upstream):
            return
        for host in hosts:
            more = shared.union(*(before.single.get(host, ()) for before in upstream)) - result.every
            if more:
                result.single[host] = more
