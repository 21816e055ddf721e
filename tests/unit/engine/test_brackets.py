"""Once something was taken out of service it is put back, whatever happens in between."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.engine import Cancellation
from kubexm.engine.layout import Layout, Unit
from kubexm.engine.state import Phase, RunState
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph, FailureMode, FailurePolicy, Prediction, RunStatus, State
from tests.unit.engine.graphs import HOSTS, Chance, chances, examples, graphs
from tests.unit.engine.test_state import Simulation, run_state
from tests.unit.engine.world import Died, Gone, Thing, World, execute, graph, node, states

FINAL = Phase.SUCCEEDED


@dataclass
class Bracketed(Simulation):
    """Keeps the laws of brackets while it plays."""

    def __post_init__(self) -> None:
        self.opened: set[Unit] = set()
        self.closed: list[Unit] = []
        self.opener_of = {closer: opener for opener, closer in self.state.layout.closer_of.items()}

    def check_start(self, unit: Unit, active: list[Unit]) -> None:
        state, layout = self.state, self.state.layout
        if not state.closes(unit):
            super().check_start(unit, active)
        for closer in self.closed:
            assert unit not in layout.inside(closer), "something started inside a bracket that was closed"
        if unit in self.opener_of and self.opener_of[unit] in self.opened:
            opening = layout.unit_node[self.opener_of[unit]]
            for inner in layout.inside(unit):
                if layout.unit_node[inner] == opening and inner != self.opener_of[unit]:
                    continue  # the bracket of another host, whose work may have been blocked while it was opened
                host = layout.unit_host[inner]
                dropped_out = host in state.lost and host != layout.unit_host[unit]
                over = state.phase(inner) >= FINAL
                assert over or dropped_out, "a bracket was closed while something inside was not over"

    def end(self, unit: Unit, postponed: list[Unit]) -> None:
        super().end(unit, postponed)
        state = self.state
        begun = unit in state.attempts or state.phase(unit) is Phase.SATISFIED
        if unit in state.layout.closer_of and begun:
            self.opened.add(unit)
        if unit in self.opener_of and state.phase(unit) >= FINAL:
            assert unit not in self.closed
            self.closed.append(unit)


@examples(300)
@given(graphs(bracketed=True), chances)
def test_an_opened_bracket_is_closed_exactly_once_after_all_inside(graph: ExecutionGraph, chance: Chance) -> None:
    layout = Layout(graph)
    outcomes = chance.choice(
        (
            ("succeeded",),
            ("succeeded", "satisfied", "failed"),
            ("succeeded", "succeeded", "gone", "failed"),
            ("succeeded", "succeeded", "interrupted"),
        )
    )
    lost = chance.some(HOSTS, 1)
    state = RunState(layout, lost=lost)
    play = Bracketed(state, chance.randrange, lambda: chance.choice(outcomes))
    play.play()
    for opener, closer in layout.closer_of.items():
        assert state.phase(closer) >= FINAL
        if opener in play.opened:
            assert closer in play.closed, f"{layout.name(closer)} never ran: {state.phase(closer).name}"
    if outcomes == ("succeeded",) and not lost:
        assert state.status() is RunStatus.SUCCEEDED


@examples(120)
@given(graphs(bracketed=True), chances)
def test_an_abandoned_run_is_over_at_once(graph: ExecutionGraph, chance: Chance) -> None:
    state = RunState(Layout(graph))
    for _ in range(chance.randint(0, 12)):
        if (unit := state.take()) is None:
            break
        state.begin_run(unit)
        state.finish(unit, State.SUCCEEDED)
    state.abandon()
    assert state.over
    assert state.take() is None


def plan(policy: FailurePolicy | None = None) -> ExecutionGraph:
    """`before`, then two hosts taken out of service, changed and put back one after the other, then `after`."""
    nodes = [node("before", "ab")]
    last = "before"
    for host in "ab":
        nodes += [
            node(f"out-{host}", host, Thing(name="out"), on_demand=True),
            node(
                f"work-{host}",
                host,
                Thing(name="work"),
                after=(f"m.t.{last}",),
                after_same_host=(f"m.t.out-{host}",),
            ),
            node(f"more-{host}", host, Thing(name="more"), after_same_host=(f"m.t.work-{host}",)),
            node(f"in-{host}", host, Gone(name="out"), after=(f"m.t.more-{host}",), closes=f"m.t.out-{host}"),
        ]
        last = f"in-{host}"
    return graph(*nodes, node("after", "ab", after=("m.t.in-b",)), policy=policy)


def out(world: World) -> list[str]:
    return [host for host, things in world.things.items() if "out" in things]


async def test_a_bracket_opens_for_work_and_not_without_it(tmp_path: Path) -> None:
    world = World("a", "b", "c")
    assert set(states(await execute(world, plan(), tmp_path / "1")).values()) == {"succeeded"}
    assert world.made["a", "out"] == world.made["b", "out"] == 1
    world.things["b"].discard("work")
    second = states(await execute(world, plan(), tmp_path / "2", run="r2"))
    assert (world.made["a", "out"], world.made["b", "out"]) == (1, 2)
    assert second["out-a@a"] == "excluded"
    assert second["in-a@a"] == "satisfied"
    assert second["in-b@b"] == "succeeded"
    assert not out(world)


@pytest.mark.parametrize("mode", FailureMode)
@pytest.mark.parametrize("broken", ["work", "more"])
async def test_a_failure_inside_closes_the_bracket_and_stops_before_the_next(
    tmp_path: Path, broken: str, mode: FailureMode
) -> None:
    world = World("a", "b", "c")
    world.broken.add(("a", broken))
    ended = states(await execute(world, plan(FailurePolicy(mode)), tmp_path))
    assert ended[f"{broken}-a@a"] == "failed"
    assert ended["in-a@a"] == "succeeded"
    assert ended["work-b@b"] in ("blocked", "cancelled")
    assert ended["after@a"] in ("blocked", "cancelled")
    assert not world.made["b", "out"]
    assert not out(world)


async def test_an_opening_step_that_failed_half_way_is_closed_too(tmp_path: Path) -> None:
    world = World("a", "b", "c")
    world.broken.add(("a", "out"))
    ended = states(await execute(world, plan(), tmp_path))
    assert ended["out-a@a"] == "failed"
    assert ended["work-a@a"] == "blocked"
    assert ended["in-a@a"] == "satisfied", "it was looked at, and there was nothing to put back"


def test_a_stop_closes_a_bracket_whose_work_was_blocked_while_it_was_being_opened() -> None:
    state = run_state(
        node("one", "c"),
        node("two", "a"),
        node("open", "ab"),
        node("work", "ab", after_same_host=("m.t.open",)),
        node("close", "ab", after=("m.t.work",), closes="m.t.open"),
        policy=FailurePolicy(FailureMode.FAIL_FAST),
    )
    named = {state.layout.name(unit): unit for unit in state.layout.each_unit()}
    while state.take() is not None:
        pass
    for name, outcome in (("one@c", State.FAILED), ("two@a", State.FAILED), ("open@a", State.SUCCEEDED)):
        unit = named[f"m.t.{name[:-2]}", name[-1]]
        state.begin_run(unit)
        state.finish(unit, outcome, host_gone=name == "two@a")
    state.finish(named["m.t.open", "b"], State.INTERRUPTED)
    closing = {state.take(), state.take()}
    assert closing == {named["m.t.close", "a"], named["m.t.close", "b"]}


class StopAt:
    """Cancels a run as a unit begins, as often as asked."""

    def __init__(self, name: str, times: int) -> None:
        self.cancellation = Cancellation()
        self._name = f"m.t.{name}"
        self._times = times

    def on_event(self, event: Event) -> None:
        if event.kind is EventKind.UNIT_RUNNING and event.node == self._name:
            for _ in range(self._times):
                asyncio.get_running_loop().call_soon(self.cancellation.cancel)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["out-a", "work-a", "more-a", "in-a", "work-b"])
async def test_a_cancelled_run_leaves_nothing_out_of_service(tmp_path: Path, name: str, times: int) -> None:
    world, stop = World("a", "b", "c"), StopAt(name, times)
    result = await execute(world, plan(), tmp_path, cancellation=stop.cancellation, observers=(stop,))
    assert result.status in (RunStatus.CANCELLED, RunStatus.INTERRUPTED)
    assert states(result)["after@a"] == "cancelled"
    assert not out(world)


async def test_an_abandoned_run_leaves_its_brackets_to_whoever_resumes_it(tmp_path: Path) -> None:
    world, stop = World("a", "b", "c"), StopAt("more-b", 3)
    await execute(world, plan(), tmp_path, cancellation=stop.cancellation, observers=(stop,))
    assert out(world) == ["b"]
    world.broken.add(("a", "before"))
    world.things["a"].discard("before")
    ended = states(await execute(world, plan(), tmp_path, resume=True))
    assert ended["before@a"] == "failed"
    assert ended["in-b@b"] == "succeeded", "it does not wait for what comes before the bracket"
    assert not out(world)


@examples(25)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=4),
    st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from(["before", "work", "more", "after"])), max_size=2),
)
def test_killed_anywhere_and_resumed_nothing_stays_out_of_service(
    deaths: list[tuple[int, bool]], broken: set[tuple[str, str]]
) -> None:
    async def play(directory: Path) -> None:
        world = World("a", "b", "c")
        world.broken = set(broken)
        resume = False
        for after, carried_out in deaths:
            world.die_at, world.die_after = world.changes + after, carried_out
            try:
                await execute(world, plan(), directory, resume=resume)
            except Died:
                resume = True
            else:
                assert not out(world)
                return
        world.die_at = -1
        result = await execute(world, plan(), directory, resume=resume)
        assert not out(world)
        assert (result.status is RunStatus.SUCCEEDED) is not bool(broken)

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(play(Path(name)))


async def test_a_dry_run_tells_what_would_be_taken_out_of_service_and_put_back(tmp_path: Path) -> None:
    world = World("a", "b", "c")
    world.things["b"].update({"before", "work", "more", "after"})
    result = await execute(world, plan(), tmp_path, dry_run=True)
    predicted = {name.removeprefix("m.t."): host.prediction for name, host in result.results() if "-" in name}
    assert predicted["out-a"] is Prediction.CHANGE
    assert predicted["in-a"] is Prediction.CHANGE
    assert predicted["out-b"] is None
    assert not world.changes
