"""A plan as boxes and links: what every drawing shares. Big plans collapse into one box for each task or module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.node import ExecutionNode
from kubexm.plan.render.edges import Edge, all_edges, telling_edges
from kubexm.plan.render.names import id_parts, short_hosts, shorten
from kubexm.plan.results import HostResult, NodeResult, State

__all__ = ["MOST_BOXES", "Box", "Collapse", "Link", "Picture", "draw", "fitting", "headline", "place_of"]

MOST_BOXES = 120
"""More than this on one page help nobody: unless told otherwise, a picture collapses."""
_WIDEST = 38


class Collapse(StrEnum):
    """What becomes one box."""

    NODE = "node"
    TASK = "task"
    MODULE = "module"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One node, or all nodes of a task or module."""

    id: str
    group: str
    """The module it belongs to."""
    title: str
    lines: tuple[str, ...] = ()
    tooltip: str = ""
    optional: bool = False
    on_demand: bool = False
    mark: str = ""
    """How it ended (`succeeded`, `failed`, …), or what a new plan does to it (`added`, `removed`, `changed`)."""


@dataclass(frozen=True, slots=True)
class Link:
    """One box waits for another."""

    source: str
    target: str
    same_host: bool = False
    on_demand: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes in reading order and the links between them."""

    title: str
    subtitle: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]

    @property
    def groups(self) -> dict[str, list[Box]]:
        """The boxes of each module, in order of first mention."""
        found: dict[str, list[Box]] = {}
        for box in self.boxes:
            found.setdefault(box.group, []).append(box)
        return found


def draw(
    graph: ExecutionGraph,
    *,
    collapse: Collapse | None = None,
    results: Mapping[str, NodeResult] | None = None,
    outcome: str = "",
    every_edge: bool = False,
) -> Picture:
    """The picture of a plan, or of how far its execution came. Links that follow from others may be left out."""
    level = collapse or fitting(graph)
    results = results or {}
    subtitle = f"{headline(graph)}: {outcome}" if outcome else headline(graph)
    if level is Collapse.NODE:
        boxes = tuple(_node_box(node, results.get(node.id)) for node in graph.nodes.values())
        edges = all_edges(graph) if every_edge else telling_edges(graph)
        links = tuple(Link(edge.source, edge.target, edge.same_host, edge.on_demand) for edge in edges)
    else:
        boxes = _collapsed(graph, level, results)
        links = _collapsed_links(graph, level)
    return Picture(graph.name, subtitle, boxes, links)


def headline(graph: ExecutionGraph) -> str:
    """How big the plan is."""
    return f"{_count(len(graph.nodes), 'node')} on {_count(len(graph.hosts), 'host')}, {_count(graph.units, 'unit')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def fitting(graph: ExecutionGraph) -> Collapse:
    """The finest level at which the picture stays readable."""
    for level in (Collapse.NODE, Collapse.TASK):
        if len({place_of(node.id, level) for node in graph.nodes.values()}) <= MOST_BOXES:
            return level
    return Collapse.MODULE


def place_of(node_id: str, level: Collapse) -> str:
    """The id of the box a node is in."""
    if level is Collapse.NODE:
        return node_id
    module, task, _ = id_parts(node_id)
    return module if level is Collapse.MODULE else f"{module}.{task}"


def _node_box(node: ExecutionNode, ended: NodeResult | None) -> Box:
    module, task, name = id_parts(node.id)
    words = node.step.describe()
    lines = [shorten(words, _WIDEST), shorten(short_hosts(node.hosts) or "no host", _WIDEST)]
    mark = State.EXCLUDED.value if node.excluded else ""
    if ended is not None:
        mark = ended.state.value
        lines[1] = _timed(lines[1], ended.hosts.values())
    tooltip = "\n".join(
        part
        for part in (node.id, words, short_hosts(node.hosts), f"left out: {node.excluded}" if node.excluded else "")
        if part
    )
    return Box(
        id=node.id,
        group=module,
        title=shorten(f"{task}.{name}", _WIDEST),
        lines=tuple(lines),
        tooltip=tooltip,
        optional=node.optional,
        on_demand=node.on_demand,
        mark=mark,
    )


def _collapsed(graph: ExecutionGraph, level: Collapse, results: Mapping[str, NodeResult]) -> tuple[Box, ...]:
    members: dict[str, list[ExecutionNode]] = {}
    for node in graph.nodes.values():
        members.setdefault(place_of(node.id, level), []).append(node)
    boxes = []
    for place, nodes in members.items():
        module, _, task = place.partition(".")
        hosts = short_hosts(dict.fromkeys(host for node in nodes for host in node.hosts))
        ended = [results[node.id] for node in nodes if node.id in results]
        where = shorten(hosts or "no host", _WIDEST)
        if ended:
            where = _timed(where, (each for node in ended for each in node.hosts.values()))
        boxes.append(
            Box(
                id=place,
                group=module,
                title=shorten(task or module, _WIDEST),
                lines=(_count(len(nodes), "node"), where),
                tooltip="\n".join([place, hosts, *(id_parts(node.id)[2] for node in nodes[:20])]),
                mark=_worst(ended),
            )
        )
    return tuple(boxes)


def _collapsed_links(graph: ExecutionGraph, level: Collapse) -> tuple[Link, ...]:
    joined: dict[tuple[str, str], list[Edge]] = {}
    for edge in telling_edges(graph):
        source, target = place_of(edge.source, level), place_of(edge.target, level)
        if source != target:
            joined.setdefault((source, target), []).append(edge)
    return tuple(
        Link(source, target, all(edge.same_host for edge in edges), all(edge.on_demand for edge in edges))
        for (source, target), edges in joined.items()
    )


def _worst(nodes: Iterable[NodeResult]) -> str:
    hosts = {f"{node.id}@{host}": result for node in nodes for host, result in node.hosts.items()}
    return NodeResult("", "", hosts).state.value if hosts else ""


def _timed(where: str, results: Iterable[HostResult]) -> str:
    spans = [(each.started, each.ended) for each in results if each.started is not None and each.ended is not None]
    if not spans:
        return where
    seconds = max(ended for _, ended in spans) - min(started for started, _ in spans)
    return f"{where} · {seconds:.1f} s"
