"""A graph as integers: nodes, hosts and units are numbers, so that a hundred thousand units cost little."""

from __future__ import annotations

from array import array
from functools import cached_property

from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.step import Resources

__all__ = ["Layout"]


class Layout:
    """Who waits for whom. Units of one node are consecutive; edges are kept per node, never per pair of units."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self.graph = graph
        self.nodes: list[ExecutionNode] = list(graph.nodes.values())
        self.hosts: list[str] = list(graph.hosts)
        self.host_index = {host: index for index, host in enumerate(self.hosts)}
        self.node_index = {node.id: index for index, node in enumerate(self.nodes)}
        self._place_units()
        self._place_edges()
        self._place_values()
        self.produces = [bool(node.step.produces()) for node in self.nodes]
        self.consumes = [bool(node.step.consumes()) for node in self.nodes]
        self.reads: list[Resources] = [node.step.reads() for node in self.nodes]
        self.writes: list[Resources] = [node.step.writes() for node in self.nodes]
        self.rank = self._ranks()
        self.turn = self._turns()

    def _place_units(self) -> None:
        self.first = array("l")
        self.unit_node = array("l")
        self.unit_host = array("l")
        self.unit_on: list[dict[int, int]] = []
        self.units_of_host: list[list[int]] = [[] for _ in self.hosts]
        unit = 0
        for index, node in enumerate(self.nodes):
            self.first.append(unit)
            placed: dict[int, int] = {}
            for name in node.hosts:
                host = self.host_index[name]
                placed[host] = unit
                self.unit_node.append(index)
                self.unit_host.append(host)
                self.units_of_host[host].append(unit)
                unit += 1
            self.unit_on.append(placed)
        self.units = unit

    def _place_edges(self) -> None:
        count = len(self.nodes)
        self.after_up: list[list[int]] = [[] for _ in range(count)]
        self.after_down: list[list[int]] = [[] for _ in range(count)]
        self.same_up: list[list[int]] = [[] for _ in range(count)]
        self.same_down: list[list[int]] = [[] for _ in range(count)]
        self.demand_up: list[list[int]] = [[] for _ in range(count)]
        """The on-demand nodes whose values this node may ask for; no wait until it does."""
        for index, node in enumerate(self.nodes):
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
        producers: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for key in node.step.produces():
                producers.setdefault(key.name, []).append(index)
        self.value_up: list[list[tuple[int, bool]]] = []
        """(producer, whether this host's value alone is needed) for each value a node cannot do without."""
        for node in self.nodes:
            needs = [(maker, key.per_host) for key in node.step.consumes() for maker in producers.get(key.name, ())]
            self.value_up.append([need for need in needs if not self.nodes[need[0]].on_demand])

    def _ranks(self) -> list[float]:
        """The weight of the longest path from each node to an end: the larger, the more urgent."""
        rank = [node.weight for node in self.nodes]
        for index in range(len(self.nodes) - 1, -1, -1):
            down = [rank[other] for other in (*self.after_down[index], *self.same_down[index])]
            rank[index] += max(down, default=0.0)
        for index in range(len(self.nodes) - 1, -1, -1):
            for maker in self.demand_up[index]:
                rank[maker] = max(rank[maker], self.nodes[maker].weight + rank[index])
        return rank

    def _turns(self) -> list[int]:
        """What orders units, added to a unit's number: by rank, the most urgent first, then by number."""
        turn = [0] * len(self.nodes)
        for place, index in enumerate(sorted(range(len(self.nodes)), key=lambda index: (-self.rank[index], index))):
            turn[index] = place * self.units
        return turn

    @cached_property
    def ancestors(self) -> list[int]:
        """For each node, the set of nodes before it, as a bit mask."""
        masks: list[int] = []
        for index in range(len(self.nodes)):
            mask = 0
            for other in (*self.after_up[index], *self.same_up[index], *self.demand_up[index]):
                mask |= masks[other] | (1 << other)
            masks.append(mask)
        return masks

    def unit(self, node: str, host: str) -> int | None:
        """The unit of this node and host, if there is one."""
        index = self.node_index.get(node)
        place = self.host_index.get(host)
        return None if index is None or place is None else self.unit_on[index].get(place)

    def units_of(self, index: int) -> range:
        """The units of a node."""
        start = self.first[index]
        return range(start, start + len(self.nodes[index].hosts))

    def wanted(self, unit: int, maker: int) -> list[int]:
        """The units of an on-demand node whose values this unit would ask for."""
        node = self.nodes[self.unit_node[unit]]
        made = {key.name for key in self.nodes[maker].step.produces() if key.per_host}
        gathered = {key.name for key in node.step.gathers()}
        consumed = {key.name for key in node.step.consumes()}
        everywhere = bool(gathered & made) or bool((consumed | gathered) & self._cluster_keys(maker))
        if everywhere:
            return list(self.units_of(maker))
        own = self.unit_on[maker].get(self.unit_host[unit])
        return [] if own is None else [own]

    def _cluster_keys(self, maker: int) -> set[str]:
        return {key.name for key in self.nodes[maker].step.produces() if not key.per_host}
