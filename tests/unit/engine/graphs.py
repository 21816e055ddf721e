"""Random graphs for property tests: both kinds of edges, values, demand, exclusion, resources, policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from kubexm.cache import Key
from kubexm.plan import Budget, ExecutionFragment, ExecutionGraph, ExecutionNode, FailureMode, FailurePolicy, Retry
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, Values

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


_flag: st.SearchStrategy[bool] = st.booleans()
_rarely: st.SearchStrategy[bool] = st.integers(0, 5).map(lambda number: number == 0)


_resources = st.frozensets(st.sampled_from(RESOURCES), max_size=2)


def _bracket(draw: st.DrawFn, nodes: list[ExecutionNode], index: int) -> list[ExecutionNode]:
    """An opening node, one or two nodes inside, each of which may also wait for others, and a closing node."""
    hosts = tuple(draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3, unique=True)))
    certain = [node for node in nodes if not node.on_demand]

    def others() -> tuple[str, ...]:
        return tuple(node.id for node in draw(st.lists(st.sampled_from(certain), max_size=1))) if certain else ()

    def add(name: str, after: tuple[str, ...] = (), same: tuple[str, ...] = (), **more: Any) -> ExecutionNode:
        step = Sim(touched=draw(_resources), seen=draw(_resources))
        return ExecutionNode(
            id=f"m.t.n{index}-{name}", step=step, hosts=hosts, after=after, after_same_host=same, **more
        )

    def edge(*names: str) -> dict[str, tuple[str, ...]]:
        return {"same": names} if draw(_flag) else {"after": names}

    opener = add("open", others(), on_demand=draw(_flag))
    first = {"same": (opener.id,)} if opener.on_demand else edge(opener.id)
    inside = [replace(one := add("in1", **first), after=(*one.after, *others()), optional=draw(_rarely))]
    if draw(_flag):
        inside.append(add("in2", **(first if draw(_flag) else edge(inside[0].id))))
    closer = add("close", **edge(*(node.id for node in inside)), closes=opener.id)
    return [opener, *inside, closer]


@st.composite
def graphs(draw: st.DrawFn, *, most_nodes: int = 9, bracketed: bool = False, acting: bool = False) -> ExecutionGraph:
    """A well-formed graph under some failure policy; if asked for, with brackets, or nodes that act from elsewhere."""
    resources = _resources
    nodes: list[ExecutionNode] = []
    for index in range(draw(st.integers(1, most_nodes))):
        if bracketed and draw(st.integers(0, 2)) == 0:
            nodes += _bracket(draw, nodes, index)
            continue
        hosts = tuple(draw(st.lists(st.sampled_from(HOSTS), max_size=4, unique=True)))
        known = [node for node in nodes if not (node.on_demand and not node.step.produces())]
        earlier = draw(st.lists(st.sampled_from(known), unique_by=lambda n: n.id, max_size=3)) if known else []
        after: list[str] = []
        same: list[str] = []
        wants: list[str] = []
        for other in earlier:
            shared = bool(set(other.hosts) & set(hosts))
            if other.on_demand:
                if hosts and other.hosts:
                    after.append(other.id)
                    wants.append(other.id)
            elif draw(_flag) and shared:
                same.append(other.id)
            else:
                after.append(other.id)
                if draw(_flag) and other.step.produces():
                    wants.append(other.id)
        name = f"m.t.n{index}"
        on_demand = draw(_rarely) and bool(hosts)
        step = Sim(touched=draw(resources), seen=draw(resources), makes=name if hosts else "", wants=tuple(wants))
        nodes.append(
            ExecutionNode(
                id=name,
                step=step,
                hosts=hosts,
                after=tuple(after),
                after_same_host=tuple(same),
                optional=draw(_rarely),
                on_demand=on_demand,
                max_parallel=draw(st.sampled_from((None, None, 1, 2))),
                retry=Retry(times=draw(st.sampled_from((0, 0, 1)))),
                weight=draw(st.sampled_from((1.0, 1.0, 5.0))),
                excluded="" if wants or not draw(_rarely) else "filtered",
            )
        )
    if acting:
        actors = st.lists(st.sampled_from((*HOSTS, "e", "f")), unique=True, max_size=3)
        nodes = [replace(node, via=tuple(draw(actors))) for node in nodes]
    consumed = {name for node in nodes for name in node.step.consumes()}
    nodes = [_kept(node, {key.name for key in consumed}) for node in nodes]
    mode = draw(st.sampled_from(FailureMode))
    spare = tuple(draw(st.lists(st.sampled_from(HOSTS), unique=True, max_size=3)))
    budgets = (Budget("worker", spare, draw(st.integers(1, 2))),) if spare else ()
    return ExecutionGraph.build("sim", ExecutionFragment(tuple(nodes)), policy=FailurePolicy(mode, budgets))


def _kept(node: ExecutionNode, consumed: set[str]) -> ExecutionNode:
    """Whose value is consumed is not filtered out: `ExecutionGraph.without` refuses that."""
    return replace(node, excluded="") if node.id in consumed else node
