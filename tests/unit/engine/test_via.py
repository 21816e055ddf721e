"""Units about one host that act from another: the actor may be lost, the subject need not be reachable."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.cache import Key
from kubexm.connector import Command
from kubexm.engine.layout import Layout, Unit
from kubexm.engine.state import Phase, RunState
from kubexm.errors import ConnectError, HostError
from kubexm.events import EventKind
from kubexm.plan import Budget, ExecutionGraph, FailureMode, FailurePolicy, RunStatus, State
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, Values, resources
from kubexm.store import read_journal
from tests.unit.engine.graphs import HOSTS, Chance, Sim, chances, examples, graphs
from tests.unit.engine.test_brackets import Bracketed
from tests.unit.engine.world import Died, Gone, Shout, Thing, World, execute, graph, node, states


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Step):
    """The subject has a label: kept in the world at large, set from whichever host acts."""

    name: str = "label"
    makes: str = ""
    fails_on: str = ""

    def reads(self) -> Resources:
        return resources("api:labels")

    def writes(self) -> Resources:
        return resources("api:labels")

    def produces(self) -> tuple[Key[Any], ...]:
        return (Key(self.makes, per_host=True),) if self.makes else ()

    def _thing(self, ctx: StepContext) -> str:
        return f"{self.name}-{ctx.subject}"

    async def precheck(self, ctx: StepContext) -> Check:
        found = await ctx.host.connector.execute(Command(script=f"there {self._thing(ctx)}"))
        return Check(found.ok, values=dict.fromkeys(self.produces(), f"of {ctx.subject}") if found.ok else {})

    async def run(self, ctx: StepContext) -> Values | None:
        (await ctx.host.connector.execute(Command(script=f"make {self._thing(ctx)}", changes=True))).check()
        return None


class Cluster(World):
    """Hosts that see the same things, as those that ask one API do."""

    def __init__(self, *hosts: str) -> None:
        super().__init__(*hosts)
        shared: set[str] = set()
        self.things = dict.fromkeys(hosts, shared)


async def test_a_unit_acts_from_the_first_candidate_and_is_told_under_its_subject(tmp_path: Path) -> None:
    world = Cluster("a", "b", "c")
    plan = graph(
        node("label", "xy", Label(makes="k"), via=("b", "c")),
        node("use", "x", Label(name="use"), via=("c",), after=("m.t.label",)),
    )
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"label@x": "succeeded", "label@y": "succeeded", "use@x": "succeeded"}
    assert world.made == {("b", "label-x"): 1, ("b", "label-y"): 1, ("c", "use-x"): 1}
    assert {one.actor for one in result.nodes["m.t.label"].hosts.values()} == {"b"}
    running = [event for event in read_journal(tmp_path / "journal") if event.kind is EventKind.UNIT_RUNNING]
    assert sorted((event.host, event.data["actor"]) for event in running) == [("x", "b"), ("x", "c"), ("y", "b")]
    assert len({event.data["receipts"] for event in running}) == 3, "no two share receipts on their actor"


@pytest.mark.parametrize("left", range(4))
async def test_another_candidate_takes_over_from_one_that_is_lost(tmp_path: Path, left: int) -> None:
    world = Cluster("a", "b", "c")
    world.dead["b"] = left
    policy = FailurePolicy(budgets=(Budget("worker", ("x",), 1),))
    plan = graph(node("label", "xy", Label(), via=("b", "c")), node("more", "xy", Label(name="more"), via=("b", "c"),
        after=("m.t.label",)), policy=policy)  # fmt: skip
    result = await execute(world, plan, tmp_path)
    assert set(states(result).values()) <= {"succeeded", "satisfied"}
    assert result.status is RunStatus.SUCCEEDED, "an actor that is lost costs its subjects nothing"
    assert world.things["a"] == {"label-x", "label-y", "more-x", "more-y"}


async def test_a_unit_is_blocked_when_no_candidate_is_left(tmp_path: Path) -> None:
    world = Cluster("a", "b", "c")
    world.dead = {"b": 0, "c": 0}
    policy = FailurePolicy(budgets=(Budget("worker", ("x",), 1),))
    plan = graph(node("label", "x", Label(), via=("b", "c")), node("own", "a", Label(name="own")), policy=policy)
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"label@x": "blocked", "own@a": "succeeded"}
    assert result.status is RunStatus.FAILED
    assert not result.lost_hosts
    reason = result.nodes["m.t.label"].hosts["x"].reason
    assert "c could not be reached" in reason
    assert "the connection was lost" in reason


def unreached(host: str) -> dict[str, HostError]:
    return {host: ConnectError("no route to host", host=host)}


async def test_a_subject_that_cannot_be_reached_blocks_what_acts_there_and_nothing_else(tmp_path: Path) -> None:
    world = Cluster("a", "b")
    plan = graph(
        node("own", "xa", Label(name="own")),
        node("drop", "x", Label(name="drop"), via=("b",)),
        node("label", "x", Label(), via=("b",), after_same_host=("m.t.own",)),
    )
    result = await execute(world, plan, tmp_path, unreached=unreached("x"))
    assert states(result) == {"own@x": "blocked", "own@a": "succeeded", "drop@x": "succeeded", "label@x": "blocked"}


async def test_a_subject_lost_within_its_budget_still_gets_what_is_done_for_it_elsewhere(tmp_path: Path) -> None:
    world = Cluster("a", "b")
    policy = FailurePolicy(budgets=(Budget("worker", ("x",), 1),))
    plan = graph(
        node("own", "xa", Label(name="own")),
        node("drop", "x", Label(name="drop"), via=("b",)),
        node("label", "xa", Label(), via=("b",), after_same_host=("m.t.own",)),
        node("end", "a", Label(name="end"), after=("m.t.label", "m.t.drop")),
        policy=policy,
    )
    result = await execute(world, plan, tmp_path, unreached=unreached("x"))
    assert states(result) == {
        "own@x": "blocked", "own@a": "succeeded", "drop@x": "succeeded",
        "label@x": "blocked", "label@a": "succeeded", "end@a": "succeeded",
    }  # fmt: skip
    assert result.status is RunStatus.PARTIAL


async def test_what_cannot_be_read_back_does_not_move_to_another_host(tmp_path: Path) -> None:
    world = Cluster("a", "b", "c")
    world.dead["b"] = 0
    result = await execute(world, graph(node("shout", "x", Shout(name="shout"), via=("b", "c"))), tmp_path)
    assert states(result) == {"shout@x": "failed"}
    assert not world.made


@examples(28)
@given(st.integers(0, 6), st.booleans(), st.booleans())
def test_a_resumed_unit_is_settled_where_it_began_or_read_from_elsewhere(
    at: int, carried_out: bool, actor_gone: bool
) -> None:
    async def play(directory: Path) -> None:
        world = Cluster("a", "b", "c")
        plan = graph(
            node("label", "xy", Label(), via=("b", "c")), node("more", "x", Label(name="more"), via=("b", "c"))
        )
        world.die_at, world.die_after = at, carried_out
        try:
            result = await execute(world, plan, directory)
        except Died:
            world.die_at = -1
            gone = unreached("b") if actor_gone else None
            result = await execute(world, plan, directory, resume=True, unreached=gone)
        assert set(states(result).values()) == {"succeeded"}
        assert world.things["a"] == {"label-x", "label-y", "more-x"}
        assert all(count == 1 for count in world.made.values()), f"something was made twice: {world.made}"

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(play(Path(name)))


async def test_a_bracket_about_a_host_that_was_lost_is_closed_from_elsewhere(tmp_path: Path) -> None:
    world = Cluster("a", "b", "x")
    policy = FailurePolicy(budgets=(Budget("worker", ("x",), 1),))
    plan = graph(
        node("out", "x", Thing(name="out"), via=("b", "a"), on_demand=True),
        node("work", "x", after_same_host=("m.t.out",)),
        node("in", "x", Gone(name="out"), via=("b", "a"), after_same_host=("m.t.work",), closes="m.t.out"),
        node("end", "a", after=("m.t.in",)),
        policy=policy,
    )
    world.dead["x"] = 1
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"out@x": "succeeded", "work@x": "failed", "in@x": "succeeded", "end@a": "succeeded"}
    assert result.status is RunStatus.PARTIAL
    assert "out" not in world.things["a"]


def stopped_inside_a_bracket(*, demanding: bool) -> tuple[RunState, dict[str, Unit]]:
    """A run under fail_fast that stops while `work` on x, inside a bracket, is active."""
    nodes = [
        node("token", "b", Sim(makes="token"), on_demand=True),
        node("out", "x", Sim(), via=("b", "c")),
        node("work", "x", Sim(wants=("token",) if demanding else ()), via=("b", "c"),
            after=("m.t.token",) if demanding else (), after_same_host=("m.t.out",)),
        node("in", "x", Sim(), via=("b", "c"), after_same_host=("m.t.work",), closes="m.t.out"),
        node("bad", "c", Sim()),
    ]  # fmt: skip
    plan = graph(*nodes[0 if demanding else 1 :], policy=FailurePolicy(FailureMode.FAIL_FAST))
    state = RunState(layout := Layout(plan))
    units = {layout.node_of(unit).id.rpartition(".")[2]: unit for unit in layout.each_unit()}
    active = {state.take(), state.take()}
    assert active == {units["out"], units["bad"]}
    state.begin_run(units["out"])
    state.finish(units["out"], State.SUCCEEDED)
    assert state.take() == units["work"]
    state.finish(units["bad"], State.FAILED)
    assert state.take() is None, "the bracket is not closed while something inside is active"
    return state, units


@pytest.mark.parametrize("begun", [False, True])
def test_a_bracket_is_closed_when_an_actor_inside_is_lost_after_the_run_was_stopped(begun: bool) -> None:
    state, units = stopped_inside_a_bracket(demanding=False)
    if begun:
        state.begin_run(units["work"])
    moved = state.actor_lost(units["work"], movable=True)
    assert moved is not begun, "what may have changed something is a failure, not cancelled"
    if begun:
        state.finish(units["work"], State.FAILED)
    assert state.take() == units["in"]
    state.finish(units["in"], State.SUCCEEDED)
    assert state.over
    assert state.phase(units["work"]) is (Phase.FAILED if begun else Phase.CANCELLED)


def test_a_bracket_is_closed_when_something_inside_demands_a_value_after_the_run_was_stopped() -> None:
    state, units = stopped_inside_a_bracket(demanding=True)
    assert state.demand(units["work"])
    assert state.take() == units["in"]
    state.finish(units["in"], State.SUCCEEDED)
    assert state.over
    assert state.phase(units["work"]) is Phase.CANCELLED


@examples(120)
@given(graphs(bracketed=True, acting=True), chances)
def test_any_run_with_actors_that_get_lost_ends_with_every_unit_in_one_final_state(
    graph: ExecutionGraph, chance: Chance
) -> None:
    class Losing(Bracketed):
        def end(self, unit: Unit, postponed: list[Unit]) -> None:
            if chance.randrange(5) or not self.state.actor_lost(unit, movable=chance.random() < 0.5):
                super().end(unit, postponed)

    layout = Layout(graph)
    state = RunState(layout, lost=[chance.choice(HOSTS)] if chance.random() < 0.3 else [])
    outcomes = ("succeeded", "succeeded", "satisfied", "failed", "gone")
    Losing(state, chance.randrange, lambda: chance.choice(outcomes)).play()
    assert not state.active
    assert all(state.phase(unit) >= Phase.SUCCEEDED for unit in layout.each_unit())
    for unit in layout.each_unit():
        if state.phase(unit) is Phase.BLOCKED and state.root[unit] < 0:
            assert state.status() in (RunStatus.FAILED, RunStatus.PARTIAL)
