"""Modules: hooks around tasks, and joining by milestones, by barriers, host by host and batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import Host
from kubexm.errors import GraphError
from kubexm.module import Joined, Module, link, per_host, rolling, sequence
from kubexm.plan import EMPTY, ExecutionFragment, ExecutionGraph, ExecutionNode, FailureMode, FailurePolicy, Milestone
from kubexm.plan.validation import validate
from kubexm.runtime import ModuleContext, PipelineContext, TaskContext
from kubexm.task import Batch, FragmentBuilder, Task
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.plan.paper import Paper, fragment, fragments, node, unit_orders

READY = Milestone("Ready", per_host=True)
QUORUM = Milestone("Quorum")


@pytest.fixture
def ctx(tmp_path: Path) -> PipelineContext:
    return memory_context(tmp_path, {name: MemoryConnector(name) for name in "abc"}).pipeline_context()


class One(Task):
    """One node on all hosts."""

    def __init__(
        self, name: str, *, provides: Sequence[Milestone] = (), needs: Sequence[Milestone] = (), required: bool = True
    ) -> None:
        self._name = name
        self._provides = provides
        self._needs = needs
        self._required = required

    def is_required(self, ctx: TaskContext) -> bool:
        return self._required

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder(self._name)
        g.add("do", Paper(), on=ctx.hosts(), provides=self._provides, needs=self._needs)
        return g.build()

    def plan_check(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder(self._name)
        if self._provides:
            g.add("check", Paper(), on=ctx.hosts(), provides=self._provides)
        return g.build()


class Given(Module):
    """A module of these tasks."""

    def __init__(
        self, *tasks: Task, before: Sequence[Task] = (), after: Sequence[Task] = (), required: bool = True
    ) -> None:
        self._tasks, self._before, self._after, self._required = tasks, before, after, required

    def is_required(self, ctx: ModuleContext) -> bool:
        return self._required

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return self._tasks

    def before(self, ctx: ModuleContext) -> Sequence[Task]:
        return self._before

    def after(self, ctx: ModuleContext) -> Sequence[Task]:
        return self._after


def edges(graph: ExecutionGraph | ExecutionFragment) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    nodes = graph.nodes.values() if isinstance(graph, ExecutionGraph) else graph.nodes
    return {n.id: (n.after, n.after_same_host) for n in nodes}


def test_tasks_of_a_module_join_by_milestones(ctx: PipelineContext) -> None:
    module = Given(One("m.first", provides=[READY]), One("m.second"), One("m.third", needs=[READY]))
    assert edges(module.fragment(ctx.for_module())) == {
        "m.first.do": ((), ()),
        "m.second.do": ((), ()),
        "m.third.do": ((), ("m.first.do",)),
    }


def test_hooks_are_nodes_before_and_after_everything_else(ctx: PipelineContext) -> None:
    module = Given(One("m.x"), One("m.y"), before=[One("m.ask")], after=[One("m.tell"), One("m.clean")])
    assert edges(module.fragment(ctx.for_module())) == {
        "m.ask.do": ((), ()),
        "m.x.do": (("m.ask.do",), ()),
        "m.y.do": (("m.ask.do",), ()),
        "m.tell.do": (("m.x.do", "m.y.do"), ()),
        "m.clean.do": (("m.x.do", "m.y.do"), ()),
    }


def test_what_is_not_required_leaves_the_chain_whole(ctx: PipelineContext) -> None:
    chain = sequence(Given(One("a.x")), Given(One("b.x"), before=[One("b.hook")], required=False), Given(One("c.x")))
    assert edges(chain.graph(ctx, name="g")) == {"a.x.do": ((), ()), "c.x.do": (("a.x.do",), ())}


def test_a_module_that_is_not_required_still_proves_its_milestones(ctx: PipelineContext) -> None:
    graph = link(Given(One("a.x", provides=[QUORUM]), required=False), Given(One("b.x", needs=[QUORUM]))).graph(
        ctx, name="g"
    )
    assert edges(graph) == {"a.x.check": ((), ()), "b.x.do": (("a.x.check",), ())}


def test_modules_may_be_classes_instances_or_joined_already(ctx: PipelineContext) -> None:
    class Whole(Module):
        def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
            return [One("whole.x")]

    graph = sequence(Whole, link(Given(One("b.x")), Given(One("c.x"))), Given(One("d.x"))).graph(ctx, name="g")
    assert edges(graph)["d.x.do"] == (("b.x.do", "c.x.do"), ())
    assert edges(graph)["b.x.do"] == (("whole.x.do",), ())


def test_per_host_each_host_goes_on_by_itself(ctx: PipelineContext) -> None:
    graph = per_host(Given(One("a.x")), Given(One("b.x"))).graph(ctx, name="g")
    assert edges(graph)["b.x.do"] == ((), ("a.x.do",))


@pytest.mark.parametrize("join", [link, sequence, per_host])
def test_a_need_is_met_across_whatever_joins_the_modules(ctx: PipelineContext, join: Callable[..., Joined]) -> None:
    provider = Given(One("a.x", provides=[QUORUM, READY]), after=[One("a.last")])
    graph = sequence(join(provider, Given(One("b.x"))), Given(One("c.x", needs=[QUORUM, READY]))).graph(ctx, name="g")
    user = graph.nodes["c.x.do"]
    assert "a.x.do" in user.after
    assert "a.x.do" in user.after_same_host


def test_a_need_nobody_meets_is_refused_when_the_graph_is_made(ctx: PipelineContext) -> None:
    with pytest.raises(GraphError, match=r"b\.x\.do: nothing provides Quorum"):
        link(Given(One("b.x", needs=[QUORUM]))).graph(ctx, name="g")
    with pytest.raises(GraphError, match="only later in the list"):
        sequence(Given(One("b.x", needs=[QUORUM])), Given(One("a.x", provides=[QUORUM]))).graph(ctx, name="g")


def test_a_graph_has_a_name_a_policy_and_known_hosts_only(ctx: PipelineContext) -> None:
    policy = FailurePolicy(mode=FailureMode.FAIL_FAST)
    graph = link(Given(One("a.x"))).graph(ctx, name="create", policy=policy)
    assert (graph.name, graph.policy, graph.hosts) == ("create", policy, ("a", "b", "c"))

    class Elsewhere(Module):
        def plan(self, ctx: ModuleContext) -> ExecutionFragment:
            return fragment(node("x", "z"))

    with pytest.raises(GraphError, match="unknown hosts z"):
        link(Elsewhere).graph(ctx, name="g")


def test_planning_twice_gives_the_same_bytes(ctx: PipelineContext) -> None:
    def once() -> str:
        return (
            sequence(Given(One("a.x", provides=[READY])), Given(One("b.x", needs=[READY])))
            .graph(ctx, name="g")
            .to_json()
        )

    assert once() == once()


def host(name: str) -> Host:
    return Host(name=name, address="192.0.2.1")


def in_batches(names: str, size: int = 1) -> list[list[Host]]:
    return [[host(name) for name in names[start : start + size]] for start in range(0, len(names), size)]


def of_batch(part: ExecutionFragment) -> Callable[[Batch], ExecutionFragment]:
    """The fragment as a task would build it for a batch: its hosts alone, in ids that end with the batch."""

    def build(batch: Batch) -> ExecutionFragment:
        hosts = [one.name for one in batch.hosts]
        here = {n.id: tuple(name for name in hosts if name in n.hosts) for n in part.nodes}

        def placed(n: ExecutionNode) -> ExecutionNode:
            own = here[n.id]
            same = (one for one in n.after_same_host if not own or set(own) & set(here[one]))
            ends = f".{batch.name}"
            after = tuple(one + ends for one in n.after)
            same_host = tuple(one + ends for one in same)
            return replace(n, id=n.id + ends, hosts=own, after=after, after_same_host=same_host)

        return ExecutionFragment(tuple(map(placed, part.nodes)))

    return build


def test_rolling_takes_one_batch_after_the_other() -> None:
    part = of_batch(fragment(node("stop", "abc"), node("start", "abc", after_same_host=["stop"])))
    assert edges(rolling(in_batches("abc"), part)) == {
        "m.t.stop.a": ((), ()),
        "m.t.start.a": ((), ("m.t.stop.a",)),
        "m.t.stop.b": (("m.t.start.a",), ()),
        "m.t.start.b": ((), ("m.t.stop.b",)),
        "m.t.stop.c": (("m.t.start.b",), ()),
        "m.t.start.c": ((), ("m.t.stop.c",)),
    }
    assert [(n.id, n.hosts) for n in rolling(in_batches("abc", 2), part).nodes] == [
        ("m.t.stop.a+1", ("a", "b")),
        ("m.t.start.a+1", ("a", "b")),
        ("m.t.stop.c", ("c",)),
        ("m.t.start.c", ("c",)),
    ]


def test_rolling_follows_the_order_of_the_batches_it_is_given() -> None:
    rolled = rolling(in_batches("cab"), of_batch(fragment(node("x", "abc"))))
    assert [n.id for n in rolled.nodes] == ["m.t.x.c", "m.t.x.a", "m.t.x.b"]


def test_what_is_reached_for_the_cluster_is_reached_with_the_last_batch() -> None:
    part = fragment(
        node("start", "ab", provides=(READY, QUORUM)),
        node("check", "ab", needs=(QUORUM,)),
        node("own", "b", needs=(READY,)),
    )
    rolled = rolling(in_batches("ab"), of_batch(part))
    assert {n.id: [str(one) for one in n.provides] for n in rolled.nodes if n.provides} == {
        "m.t.start.a": ["Ready"],
        "m.t.start.b": ["Ready", "Quorum"],
    }
    joined = link(Fixed(rolled), Fixed(fragment(node("user", "c", needs=(QUORUM,)))))
    graph = ExecutionGraph.build("g", joined.fragment(None))  # type: ignore[arg-type]  # these ask for no context
    assert graph.nodes["m.t.user"].after == ("m.t.start.b",)
    assert graph.nodes["m.t.check.a"].after == ("m.t.start.a",)


class Fixed:
    """A part that is there already."""

    def __init__(self, part: ExecutionFragment) -> None:
        self._part = part

    def fragment(self, ctx: ModuleContext) -> ExecutionFragment:
        return self._part


@given(part=fragments(most=5), size=st.integers(1, 4))
def test_rolling_gives_a_plan_in_which_no_batch_starts_before_the_last_is_done(
    part: ExecutionFragment, size: int
) -> None:
    rolled = rolling(in_batches("abc", size), of_batch(part))
    calm = ExecutionFragment(tuple(replace(n, on_demand=False) for n in part.nodes))
    validate(rolling(in_batches("abc", size), of_batch(calm)).nodes, known_hosts="abc")
    assert sorted((n.path, host) for n in rolled.nodes for host in n.hosts) == sorted(
        (n.id, host) for n in part.nodes for host in n.hosts
    )
    order = unit_orders(rolled.nodes)
    place = {host: index // size for index, host in enumerate("abc")}
    units = [(n.id, host) for n in rolled.nodes for host in n.hosts]
    on_demand = {n.id for n in rolled.nodes if n.on_demand}
    for later in units:
        earlier = {unit for unit in units if place[unit[1]] < place[later[1]] and unit[0] not in on_demand}
        assert earlier <= order[later]


def test_rolling_nothing_gives_nothing() -> None:
    assert rolling([], of_batch(fragment(node("x")))) == EMPTY
    assert rolling([[]], of_batch(fragment(node("x")))) == EMPTY
    assert rolling(in_batches("abc"), of_batch(EMPTY)) == EMPTY
