"""The edges a picture needs: those that no path of others already implies.

Pictures get unreadable with every edge of a plan in them. What is left out here follows from what is drawn, by the
engine's own meaning of both kinds of edges, host by host; it is not a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.node import ExecutionNode

__all__ = ["Edge", "all_edges", "telling_edges"]


@dataclass(frozen=True, slots=True)
class Edge:
    """`target` waits for `source`: on all its hosts, or on the same host only, or only if it asks for its values."""

    source: str
    target: str
    same_host: bool = False
    on_demand: bool = False


def all_edges(graph: ExecutionGraph) -> list[Edge]:
    """Every edge, in the graph's order."""
    return [
        Edge(other, node.id, same_host=same_host, on_demand=graph.nodes[other].on_demand)
        for node in graph.nodes.values()
        for others, same_host in ((node.after, False), (node.after_same_host, True))
        for other in others
        if not (same_host and other in node.after)
    ]


def telling_edges(graph: ExecutionGraph) -> list[Edge]:
    """The edges that do not follow from the others."""
    bits = {host: 1 << index for index, host in enumerate(graph.hosts)}
    masks = {node.id: _mask(node, bits) for node in graph.nodes.values()}
    needless: set[Edge] = set()
    outgoing: dict[str, list[Edge]] = {node: [] for node in graph.nodes}
    for edge in all_edges(graph):
        outgoing[edge.source].append(edge)
    for source, edges in outgoing.items():
        if len(edges) > 1 and not graph.nodes[source].on_demand:
            needless |= _implied(graph, source, edges, masks)
    return [edge for edge in all_edges(graph) if edge not in needless]


def _mask(node: ExecutionNode, bits: dict[str, int]) -> int:
    return sum(bits[host] for host in node.hosts)


def _implied(graph: ExecutionGraph, source: str, edges: list[Edge], masks: dict[str, int]) -> set[Edge]:
    """Which of one node's edges to others follow from paths through nodes in between."""
    # For each node below the source: the source's hosts that are done before all of its units (everywhere), and those
    # done before its unit on the same host (here). Nobody need wait for on-demand nodes: no path leads through one.
    mine = masks[source]
    everywhere: dict[str, int] = {}
    here: dict[str, int] = {}
    direct = {edge.target: edge for edge in edges}
    implied: set[Edge] = set()
    for node in _below(graph, source):
        far, near = 0, 0
        for other in node.after:
            if other in everywhere:
                far |= everywhere[other] | here[other]
        for other in node.after_same_host:
            if other in everywhere:
                shared = masks[other] & masks[node.id]
                far |= everywhere[other] if shared == masks[node.id] else 0  # units on other hosts wait for nobody
                near |= (everywhere[other] | here[other]) & shared
        edge = direct.get(node.id)
        if edge is not None:
            wanted = mine & masks[node.id] if edge.same_host else mine
            covered = far | near if edge.same_host else far
            if wanted and wanted & ~covered == 0:
                implied.add(edge)
            far |= 0 if edge.same_host else mine
            near |= mine & masks[node.id] if edge.same_host else 0
        if not node.on_demand:
            everywhere[node.id], here[node.id] = far, near
    return implied


def _below(graph: ExecutionGraph, source: str) -> list[ExecutionNode]:
    """The nodes downstream of one, in the graph's order."""
    reached = {source}
    found: list[ExecutionNode] = []
    started = False
    for node in graph.nodes.values():
        if not started:
            started = node.id == source
            continue
        if not reached.isdisjoint(node.after) or not reached.isdisjoint(node.after_same_host):
            reached.add(node.id)
            found.append(node)
    return found
