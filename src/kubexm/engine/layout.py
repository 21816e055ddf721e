"""A graph as integers: nodes, hosts and units are numbers, so that a hundred thousand units cost little."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NewType, Protocol, TypeVar, cast

from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.step import Resources

__all__ = ["HostIndex", "Layout", "NodeIndex", "Root", "Table", "Unit", "by_node"]

NodeIndex = NewType("NodeIndex", int)
HostIndex = NewType("HostIndex", int)
Unit = NewType("Unit", int)
"""One (node, host)."""
Root = NewType("Root", int)
"""Why something is blocked: the unit that failed, or -1 - host for a host that was never reached."""

K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
V = TypeVar("V")


class Table(Protocol[K_contra, V_co]):
    """A sequence by one kind of index: the type checker rejects a node's index where a unit's is meant."""

    def __getitem__(self, index: K_contra, /) -> V_co: ...
    def __iter__(self) -> Iterator[V_co]: ...
    def __len__(self) -> int: ...


def by_node(values: Iterable[V]) -> Table[NodeIndex, V]:
    """One value for each node, in order."""
    return cast("Table[NodeIndex, V]", [*values])


class Layout:
    """Who waits for whom. Units of one node are consecutive; edges are kept per node, never per pair of units."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self.graph = graph
        self.nodes: Table[NodeIndex, ExecutionNode] = cast("Table[NodeIndex, ExecutionNode]", [*graph.nodes.values()])
        self.hosts: Table[HostIndex, str] = cast("Table[HostIndex, str]", [*graph.hosts, *graph.actors])
        self.host_index = {host: HostIndex(index) for index, host in enumerate(self.hosts)}
        self.node_index = {node.id: NodeIndex(index) for index, node in enumerate(self.nodes)}
        self._place_units()
        self._place_edges()
        self._place_values()
        self.produces: Table[NodeIndex, bool] = by_node(bool(node.step.produces()) for node in self.nodes)
        self.consumes: Table[NodeIndex, bool] = by_node(bool(node.step.consumes()) for node in self.nodes)
        self.reads: Table[NodeIndex, Resources] = by_node(node.step.reads() for node in self.nodes)
        self.writes: Table[NodeIndex, Resources] = by_node(node.step.writes() for node in self.nodes)
        self.via: Table[NodeIndex, tuple[HostIndex, ...]] = by_node(
            tuple(self.host_index[name] for name in node.via) for node in self.nodes
        )
        self.closer_of = self._closers()
        """The closing unit of each opening one."""
        self.bracket_up = self._bracket_edges()
        """What a node inside a bracket, or the closing one, waits for within it, other than on the same host."""
        self.rank = self._ranks()
        self.turn = self._turns()

    def _place_units(self) -> None:
        first = array("l")
        unit_node = array("l")
        unit_host = array("l")
        unit_on: list[dict[HostIndex, Unit]] = []
        units_of_host: list[list[Unit]] = [[] for _ in self.hosts]
        unit = 0
        for index, node in enumerate(self.nodes):
            first.append(unit)
            placed: dict[HostIndex, Unit] = {}
            for name in node.hosts:
                host = self.host_index[name]
                placed[host] = Unit(unit)
                unit_node.append(index)
                unit_host.append(host)
                units_of_host[host].append(Unit(unit))
                unit += 1
            unit_on.append(placed)
        self.units = unit
        self.first = cast("Table[NodeIndex, Unit]", first)
        self.unit_node = cast("Table[Unit, NodeIndex]", unit_node)
        self.unit_host = cast("Table[Unit, HostIndex]", unit_host)
        self.unit_on = cast("Table[NodeIndex, dict[HostIndex, Unit]]", unit_on)
        self.units_of_host = cast("Table[HostIndex, list[Unit]]", units_of_host)

    def _place_edges(self) -> None:
        count = len(self.nodes)

        def table() -> Table[NodeIndex, list[NodeIndex]]:
            return cast("Table[NodeIndex, list[NodeIndex]]", [[] for _ in range(count)])

        self.after_up, self.after_down = table(), table()
        self.same_up, self.same_down = table(), table()
        self.demand_up = table()
        """The on-demand nodes this node may ask for; no wait until it does."""
        for index, node in self.each_node():
            for names, up, down in (
                (node.after, self.after_up, self.after_down),
                (node.after_same_host, self.same_up, self.same_down),
            ):
                for name in names:
                    other = self.node_index[name]
                    if self.nodes[other].on_demand:
                        if other not in self.demand_up[index]:
                            self.demand_up[index].append(other)
                    else:
                        up[index].append(other)
                        down[other].append(index)

    def _place_values(self) -> None:
        producers: dict[str, list[NodeIndex]] = {}
        for index, node in self.each_node():
            for key in node.step.produces():
                producers.setdefault(key.name, []).append(index)
        value_up: list[list[tuple[NodeIndex, bool]]] = []
        for node in self.nodes:
            needs = [(maker, key.per_host) for key in node.step.consumes() for maker in producers.get(key.name, ())]
            value_up.append([need for need in needs if not self.nodes[need[0]].on_demand])
        self.value_up = cast("Table[NodeIndex, list[tuple[NodeIndex, bool]]]", value_up)
        """(producer, whether this host's value alone is needed) for each value a node cannot do without."""

    def _closers(self) -> dict[Unit, Unit]:
        pairs = [(self.node_index[one.opener], self.node_index[one.closer]) for one in self.graph.brackets]
        return {
            unit: self.unit_on[closer][self.unit_host[unit]]
            for opener, closer in pairs
            for unit in self.units_of(opener)
        }

    def _bracket_edges(self) -> dict[NodeIndex, list[NodeIndex]]:
        above: dict[NodeIndex, list[NodeIndex]] = {}
        for bracket in self.graph.brackets:
            members = {self.node_index[name] for name in (*bracket.inside, bracket.opener)}
            for name in (*bracket.inside, bracket.closer):
                index = self.node_index[name]
                ups = (*self.after_up[index], *self.demand_up[index])
                above.setdefault(index, []).extend(up for up in ups if up in members)
        return above

    def inside(self, closer: Unit) -> set[Unit]:
        """The units of its bracket that a closing unit waits for, directly or not."""
        index = self.unit_node[closer]
        bracket = next(one for one in self.graph.brackets if one.closer == self.nodes[index].id)
        members = {self.node_index[name] for name in bracket.inside | {bracket.opener}}
        found: set[Unit] = set()
        waiting = [closer]
        while waiting:
            unit = waiting.pop()
            node, host = self.unit_node[unit], self.unit_host[unit]
            above = [other for up in self.after_up[node] if up in members for other in self.units_of(up)]
            above += [self.unit_on[up][host] for up in self.same_up[node] if up in members and host in self.unit_on[up]]
            above += [other for up in self.demand_up[node] if up in members for other in self.wanted(unit, up)]
            waiting += (fresh := set(above) - found)
            found |= fresh
        return found

    def _ranks(self) -> Table[NodeIndex, float]:
        """The weight of the longest path from each node to an end: the larger, the more urgent."""
        rank: dict[NodeIndex, float] = {index: node.weight for index, node in self.each_node()}
        backwards = [NodeIndex(index) for index in range(len(self.nodes) - 1, -1, -1)]
        for index in backwards:
            down = [rank[other] for other in (*self.after_down[index], *self.same_down[index])]
            rank[index] += max(down, default=0.0)
        for index in backwards:
            for maker in self.demand_up[index]:
                rank[maker] = max(rank[maker], self.nodes[maker].weight + rank[index])
        return by_node(rank.values())

    def _turns(self) -> Table[NodeIndex, int]:
        """What orders units, added to a unit's number: by rank, the most urgent first, then by number."""
        turn = [0] * len(self.nodes)
        for place, index in enumerate(sorted(self.node_index.values(), key=lambda index: (-self.rank[index], index))):
            turn[index] = place * self.units
        return by_node(turn)

    @cached_property
    def ancestors(self) -> Table[NodeIndex, int]:
        """For each node, the set of nodes before it, as a bit mask."""
        masks: list[int] = []
        for index in self.node_index.values():
            mask = 0
            for other in (*self.after_up[index], *self.same_up[index], *self.demand_up[index]):
                mask |= masks[other] | (1 << other)
            masks.append(mask)
        return by_node(masks)

    def each_node(self) -> Iterator[tuple[NodeIndex, ExecutionNode]]:
        """Every node with its index."""
        return ((NodeIndex(index), node) for index, node in enumerate(self.nodes))

    def each_unit(self) -> Sequence[Unit]:
        """Every unit."""
        return cast("Sequence[Unit]", range(self.units))

    def node_of(self, unit: Unit) -> ExecutionNode:
        """The node of a unit."""
        return self.nodes[self.unit_node[unit]]

    def host_of(self, unit: Unit) -> str:
        """The name of a unit's host."""
        return self.hosts[self.unit_host[unit]]

    def name(self, unit: Unit) -> tuple[str, str]:
        """Node id and host of a unit."""
        return self.nodes[self.unit_node[unit]].id, self.hosts[self.unit_host[unit]]

    def unit(self, node: str, host: str) -> Unit | None:
        """The unit of this node and host, if there is one."""
        index = self.node_index.get(node)
        place = self.host_index.get(host)
        return None if index is None or place is None else self.unit_on[index].get(place)

    def units_of(self, index: NodeIndex) -> Sequence[Unit]:
        """The units of a node."""
        start = self.first[index]
        return cast("Sequence[Unit]", range(start, start + len(self.nodes[index].hosts)))

    def wanted(self, unit: Unit, maker: NodeIndex) -> Sequence[Unit]:
        """The units of an on-demand node that this unit would ask for: by the values it needs, else by its edge."""
        node = self.node_of(unit)
        if not self.produces[maker]:
            return self.units_of(maker) if self.nodes[maker].id in node.after else self._own(maker, unit)
        made = {key.name for key in self.nodes[maker].step.produces() if key.per_host}
        gathered = {key.name for key in node.step.gathers()}
        consumed = {key.name for key in node.step.consumes()}
        everywhere = bool(gathered & made) or bool((consumed | gathered) & self._cluster_keys(maker))
        if everywhere:
            return self.units_of(maker)
        return self._own(maker, unit)

    def _own(self, maker: NodeIndex, unit: Unit) -> list[Unit]:
        own = self.unit_on[maker].get(self.unit_host[unit])
        return [] if own is None else [own]

    def _cluster_keys(self, maker: NodeIndex) -> set[str]:
        return {key.name for key in self.nodes[maker].step.produces() if not key.per_host}
