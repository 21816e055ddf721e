"""Where the time of a run went: who waited for whom, and which chain of units decided how long it took. Pure.

`chain` is what happened: back from the unit that ended last, always to the one it waited for longest. `longest` is what
the graph alone asked for: the longest path through it with the durations that were measured. A run cannot be shorter
than that; what it took beyond is waiting that no edge explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubexm.plan.graph import ExecutionGraph
from kubexm.plan.node import ExecutionNode
from kubexm.plan.order import ordered

__all__ = ["Span", "Timeline", "timeline_of"]

Unit = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One (node, host) in time: from when it had its turn to when it had ended."""

    node: str
    host: str
    state: str
    started: float
    ended: float
    busy: float = 0.0
    """Seconds of it in which a command or a transfer was under way."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All spans of a run, in order of their starts, and what decided how long it took."""

    name: str
    spans: tuple[Span, ...]
    chain: tuple[Span, ...]
    """The critical path as it was, first to last."""
    longest: float
    """Seconds of the longest path through the graph, by the measured durations."""
    round_trips: Mapping[str, int] = field(default_factory=dict)
    """How many each host took beyond connecting, as far as they were counted."""

    @property
    def started(self) -> float:
        """When the first span began."""
        return min((span.started for span in self.spans), default=0.0)

    @property
    def ended(self) -> float:
        """When the last span ended."""
        return max((span.ended for span in self.spans), default=0.0)

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return self.ended - self.started

    @property
    def added(self) -> float:
        """Seconds between the units of the critical path, in which none of them had its turn: kubexm's own."""
        ends = [self.started, *(span.ended for span in self.chain)]
        return sum(max(0.0, span.started - end) for end, span in zip(ends, self.chain, strict=False))

    @property
    def waited(self) -> float:
        """Seconds within the units of the critical path with nothing under way: waits for the cluster."""
        return sum(max(0.0, span.seconds - span.busy) for span in self.chain)


def timeline_of(graph: ExecutionGraph, spans: Iterable[Span], round_trips: Mapping[str, int] | None = None) -> Timeline:
    """The timeline of a graph's run; of a unit that ran twice the last span counts."""
    known: dict[str, dict[str, Span]] = {}
    for span in spans:
        if span.node in graph.nodes:
            known.setdefault(span.node, {})[span.host] = span
    everything = sorted(
        (span for hosts in known.values() for span in hosts.values()), key=lambda span: (span.started, span.ended)
    )
    return Timeline(
        name=graph.name,
        spans=tuple(everything),
        chain=_chain(graph, known, everything),
        longest=_longest(graph, known),
        round_trips=round_trips or {},
    )


def _chain(graph: ExecutionGraph, known: Mapping[str, Mapping[str, Span]], spans: list[Span]) -> tuple[Span, ...]:
    last = max(spans, key=lambda span: span.ended, default=None)
    found: list[Span] = []
    while last is not None:
        found.append(last)
        last = _awaited(graph.nodes[last.node], last.host, known)
    return tuple(reversed(found))


def _awaited(node: ExecutionNode, host: str, known: Mapping[str, Mapping[str, Span]]) -> Span | None:
    """The unit a unit waited for longest."""
    everywhere = (span for other in node.after for span in known.get(other, {}).values())
    here = (known[other][host] for other in node.after_same_host if host in known.get(other, {}))
    return max((*everywhere, *here), key=lambda span: span.ended, default=None)


def _longest(graph: ExecutionGraph, known: Mapping[str, Mapping[str, Span]]) -> float:
    """The longest path, node by node: an edge to all hosts is kept as one number, never as pairs of units."""
    done: dict[str, dict[str, float]] = {}
    whole: dict[str, float] = {}
    for node in ordered(list(graph.nodes.values())):
        barrier = max((whole.get(other, 0.0) for other in node.after), default=0.0)
        ends: dict[str, float] = {}
        for host in node.hosts:
            before = max((done[other].get(host, 0.0) for other in node.after_same_host), default=0.0)
            span = known.get(node.id, {}).get(host)
            ends[host] = max(barrier, before) + (span.seconds if span is not None else 0.0)
        done[node.id] = ends
        whole[node.id] = max((*ends.values(), barrier), default=0.0)
    return max(whole.values(), default=0.0)
