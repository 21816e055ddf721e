"""Random graphs for property tests: both kinds of edges, values, demand, exclusion, resources, policies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st

from kubexm.cache import Key
from kubexm.plan import Budget, ExecutionFragment, ExecutionGraph, ExecutionNode, FailureMode, FailurePolicy, Retry
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, Values

T = TypeVar("T")
HOSTS = ("a", "b", "c", "d")
RESOURCES = ("file:/x", "file:/y", "unit:z", "api:*", "file:/*", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sim(Step):
    """A step that exists on paper only."""

    touched: Resources = frozenset()
    seen: Resources = frozenset()
    makes: str = ""
    wants: tuple[str, ...] = ()

    def reads(self) -> Resources:
        return self.seen

    def writes(self) -> Resources:
        return self.touched

    def produces(self) -> tuple[Key[Any], ...]:
        return (Key(self.makes),) if self.makes else ()

    def consumes(self) -> tuple[Key[Any], ...]:
        return tuple(Key(name) for name in self.wants)

    async def precheck(self, ctx: StepContext) -> Check:
        raise AssertionError("on paper only")

    async def run(self, ctx: StepContext) -> Values | None:
        raise AssertionError("on paper only")


class Chance(Random):
    """Random choices from a seed that a failing test shows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed

    def __repr__(self) -> str:
        return f"Chance({self._seed})"

    def flag(self) -> bool:
        return self.random() < 0.5

    def rarely(self) -> bool:
        return self.randrange(6) == 0

    def some(self, items: Sequence[T], most: int, least: int = 0) -> list[T]:
        """Between `least` and `most` of the items, none twice."""
        return self.sample(items, self.randint(min(least, len(items)), min(most, len(items))))

    def resources(self) -> Resources:
        return frozenset(self.some(RESOURCES, 2))


chances: st.SearchStrategy[Chance] = st.builds(Chance, st.integers(0, 2**32 - 1))
"""Hypothesis draws a seed, and the choices of a simulation follow from that: drawing each one takes far longer."""


def examples(count: int) -> settings:
    """The same examples in every run. `KUBEXM_EXAMPLES=4000` draws as many others."""
    if wider := os.environ.get("KUBEXM_EXAMPLES"):
        return settings(max_examples=int(wider), deadline=None, database=None, phases=[Phase.generate])
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def graphs(*, most_nodes: int = 9, bracketed: bool = False, acting: bool = False) -> st.SearchStrategy[ExecutionGraph]:
    """Well-formed graphs under some failure policy; if asked for, with brackets, or nodes that act from elsewhere."""

    return st.builds(
        random_graph, chances, st.integers(1, most_nodes), bracketed=st.just(bracketed), acting=st.just(acting)
    )


def _bracket(chance: Chance, nodes: list[ExecutionNode], index: int) -> list[ExecutionNode]:
    """An opening node, one or two nodes inside, each of which may also wait for others, and a closing node."""
    hosts = tuple(chance.some(HOSTS, 3, least=1))
    certain = [node for node in nodes if not node.on_demand]

    def others() -> tuple[str, ...]:
        return tuple(node.id for node in chance.some(certain, 1))

    def add(name: str, after: tuple[str, ...] = (), same: tuple[str, ...] = (), **more: Any) -> ExecutionNode:
        step = Sim(touched=chance.resources(), seen=chance.resources())
        return ExecutionNode(
            id=f"m.t.n{index}-{name}", step=step, hosts=hosts, after=after, after_same_host=same, **more
        )

    def edge(*names: str) -> dict[str, tuple[str, ...]]:
        return {"same": names} if chance.flag() else {"after": names}

    opener = add("open", others(), on_demand=chance.flag())
    first = {"same": (opener.id,)} if opener.on_demand else edge(opener.id)
    inside = [replace(one := add("in1", **first), after=(*one.after, *others()), optional=chance.rarely())]
    if chance.flag():
        inside.append(add("in2", **(first if chance.flag() else edge(inside[0].id))))
    closer = add("close", **edge(*(node.id for node in inside)), closes=opener.id)
    return [opener, *inside, closer]


def random_graph(chance: Chance, size: int, *, bracketed: bool = False, acting: bool = False) -> ExecutionGraph:
    """A graph of so many nodes or brackets."""
    nodes: list[ExecutionNode] = []
    for index in range(size):
        if bracketed and chance.randrange(3) == 0:
            nodes += _bracket(chance, nodes, index)
            continue
        hosts = tuple(chance.some(HOSTS, 4))
        earlier = chance.some([node for node in nodes if not (node.on_demand and not node.step.produces())], 3)
        after: list[str] = []
        same: list[str] = []
        wants: list[str] = []
        for other in earlier:
            shared = bool(set(other.hosts) & set(hosts))
            if other.on_demand:
                if hosts and other.hosts:
                    after.append(other.id)
                    wants.append(other.id)
            elif chance.flag() and shared:
                same.append(other.id)
            else:
                after.append(other.id)
                if chance.flag() and other.step.produces():
                    wants.append(other.id)
        name = f"m.t.n{index}"
        on_demand = chance.rarely() and bool(hosts)
        step = Sim(touched=chance.resources(), seen=chance.resources(), makes=name if hosts else "", wants=tuple(wants))
        nodes.append(
            ExecutionNode(
                id=name,
                step=step,
                hosts=hosts,
                after=tuple(after),
                after_same_host=tuple(same),
                optional=chance.rarely(),
                on_demand=on_demand,
                max_parallel=chance.choice((None, None, 1, 2)),
                retry=Retry(times=chance.choice((0, 0, 1))),
                weight=chance.choice((1.0, 1.0, 5.0)),
                excluded="" if wants or not chance.rarely() else "filtered",
            )
        )
    if acting:
        nodes = [replace(node, via=tuple(chance.some((*HOSTS, "e", "f"), 3))) for node in nodes]
    consumed = {key.name for node in nodes for key in node.step.consumes()}
    nodes = [_kept(node, consumed) for node in nodes]
    mode = chance.choice(tuple(FailureMode))
    spare = tuple(chance.some(HOSTS, 3))
    budgets = (Budget("worker", spare, chance.randint(1, 2)),) if spare else ()
    return ExecutionGraph.build("sim", ExecutionFragment(tuple(nodes)), policy=FailurePolicy(mode, budgets))


def _kept(node: ExecutionNode, consumed: set[str]) -> ExecutionNode:
    """Whose value is consumed is not filtered out: `ExecutionGraph.without` refuses that."""
    return replace(node, excluded="") if node.id in consumed else node
