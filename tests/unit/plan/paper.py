"""Nodes on paper for tests of plans: steps that hold data and are never run, and random fragments of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kubexm.cache import Key
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode
from kubexm.runtime import StepContext
from kubexm.step import Check, Step, Values

HOSTS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper(Step):
    """Says what it makes, takes and gathers."""

    makes: tuple[Key[Any], ...] = ()
    takes: tuple[Key[Any], ...] = ()
    collects: tuple[Key[Any], ...] = ()
    note: Any = ""

    def produces(self) -> tuple[Key[Any], ...]:
        return self.makes

    def consumes(self) -> tuple[Key[Any], ...]:
        return self.takes

    def gathers(self) -> tuple[Key[Any], ...]:
        return self.collects

    async def precheck(self, ctx: StepContext) -> Check:
        raise AssertionError("on paper only")

    async def run(self, ctx: StepContext) -> Values | None:
        raise AssertionError("on paper only")


def node(name: str, hosts: str = "a", step: Step | None = None, **more: Any) -> ExecutionNode:
    """A node `m.t.NAME` on hosts named by letters; edges are given by names too."""
    for kind in ("after", "after_same_host"):
        more[kind] = tuple(_id(other) for other in more.get(kind, ()))
    return ExecutionNode(id=_id(name), step=step or Paper(), hosts=tuple(hosts), **more)


def fragment(*nodes: ExecutionNode) -> ExecutionFragment:
    return ExecutionFragment(nodes)


def graph(*nodes: ExecutionNode, known: str | None = None) -> ExecutionGraph:
    return ExecutionGraph.build("paper", fragment(*nodes), known_hosts=known)


def _id(name: str) -> str:
    return name if "." in name else f"m.t.{name}"


@st.composite
def fragments(draw: st.DrawFn, prefix: str = "n", most: int = 4) -> ExecutionFragment:
    """Any well-formed fragment: both kinds of edges, nodes without hosts, nodes on demand."""
    nodes: list[ExecutionNode] = []
    for index in range(draw(st.integers(0, most))):
        hosts = "".join(draw(st.lists(st.sampled_from(HOSTS), unique=True, max_size=3)))
        earlier = draw(st.lists(st.sampled_from(nodes), unique_by=lambda n: n.id, max_size=3)) if nodes else []
        after: list[str] = []
        same: list[str] = []
        for other in earlier:
            (same if draw(st.booleans()) and set(other.hosts) & set(hosts) else after).append(other.id)
        on_demand = draw(st.integers(0, 4)) == 0
        nodes.append(node(f"{prefix}{index}", hosts, after=after, after_same_host=same, on_demand=on_demand))
    return ExecutionFragment(tuple(nodes))


Unit = tuple[str, str]


def unit_orders(nodes: tuple[ExecutionNode, ...]) -> dict[Unit, set[Unit]]:
    """By brute force: for each unit, and for the end of each node (host ""), all units that are surely done before.

    Edges from nodes on demand count for nothing: such a node may not run.
    """
    by_id = {one.id: one for one in nodes}
    known: dict[Unit, set[Unit]] = {}

    def of(unit: Unit) -> set[Unit]:
        if unit not in known:
            one, host = by_id[unit[0]], unit[1]
            upstream: list[Unit] = [(other, "") for other in one.after if other in by_id]
            if host:
                upstream += [(o, host) for o in one.after_same_host if o in by_id and host in by_id[o].hosts]
            else:
                upstream += [(one.id, own) for own in one.hosts]
            sure = [other for other in upstream if other[0] == one.id or not by_id[other[0]].on_demand]
            known[unit] = {done for other in sure for done in (*of(other), other)}
        return known[unit]

    return {place: of(place) for one in nodes for place in [*((one.id, host) for host in one.hosts), (one.id, "")]}
