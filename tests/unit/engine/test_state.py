"""Laws of the state machine, for any graph under any policy and any order of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given

from kubexm.engine.layout import HostIndex, Layout, Unit
from kubexm.engine.state import Phase, RunState, Stop, worth_retrying
from kubexm.errors import CommandError, ConnectionLost, FencedError, OutcomeUnknown, StepError
from kubexm.plan import (
    Budget,
    ExecutionFragment,
    ExecutionGraph,
    ExecutionNode,
    FailureMode,
    FailurePolicy,
    RunStatus,
    State,
)
from kubexm.step import clash
from tests.unit.engine.graphs import HOSTS, Chance, Sim, chances, examples, graphs
from tests.unit.engine.world import GROUND

GOOD = (Phase.SUCCEEDED, Phase.SATISFIED, Phase.EXCLUDED)
ERROR = CommandError(host="a", command="false", exit_code=1)


@dataclass
class Simulation:
    """Plays a run with choices drawn from elsewhere, checking at each step what must always hold."""

    state: RunState
    choose: Callable[[int], int]
    outcome: Callable[[], str]

    def play(self) -> None:
        active: list[Unit] = []
        postponed: list[Unit] = []
        for _ in range(10_000):
            if self.state.over:
                break
            if active and (postponed or self.choose(2)):
                self.end(active.pop(self.choose(len(active))), postponed)
            elif (unit := self.state.take()) is not None:
                self.check_start(unit, active)
                active.append(unit)
            elif active:
                self.end(active.pop(self.choose(len(active))), postponed)
            elif postponed:
                self.state.resume(postponed.pop())
            elif not self.state.over:
                pytest.fail("nothing is active, nothing can start, and it is not over")
        self.state.conclude()

    def end(self, unit: Unit, postponed: list[Unit]) -> None:
        state = self.state
        match self.outcome():
            case "satisfied":
                state.finish(unit, State.SATISFIED)
            case "interrupted":
                state.cancel()
                state.finish(unit, State.INTERRUPTED)
            case what:
                if state.demand(unit):
                    return
                state.begin_run(unit)
                if what == "succeeded":
                    state.finish(unit, State.SUCCEEDED)
                elif state.retry_after(unit) is not None:
                    state.postpone(unit)
                    postponed.append(unit)
                else:
                    state.finish(unit, State.FAILED, host_gone=what == "gone")

    def check_start(self, unit: Unit, active: list[Unit]) -> None:
        layout, state = self.state.layout, self.state
        node, host = layout.unit_node[unit], layout.unit_host[unit]
        for up in layout.after_up[node]:
            for other in layout.units_of(up):
                assert self.passable(other), "started before a barrier was done"
        for up in layout.same_up[node]:
            same = layout.unit_on[up].get(host)
            assert same is None or self.passable(same), "started before the same host was done"
        mine = layout.writes[node]
        for other in active:
            if state.place[other] == state.place[unit] and not state.satisfied_ahead(unit):
                assert not clash(mine, layout.writes[layout.unit_node[other]]), "two writes at once"
        most = layout.nodes[node].max_parallel
        if most is not None:
            assert sum(layout.unit_node[other] == node for other in active) < most
        assert state.stop is Stop.NO

    def passable(self, unit: Unit) -> bool:
        state, layout = self.state, self.state.layout
        phase = state.phase(unit)
        optional = layout.nodes[layout.unit_node[unit]].optional
        dropped = layout.unit_host[unit] in state.lost and phase in (Phase.FAILED, Phase.BLOCKED)
        return phase in GOOD or dropped or (phase is Phase.FAILED and optional)


@examples(250)
@given(graphs(), chances)
def test_any_run_ends_with_every_unit_in_one_final_state_for_a_reason(graph: ExecutionGraph, chance: Chance) -> None:
    layout = Layout(graph)
    lost = chance.some(HOSTS, 1)
    outcomes = chance.choice(
        (
            ("succeeded",),
            ("succeeded", "satisfied", "failed"),
            ("failed",),
            ("succeeded", "gone", "failed", "interrupted"),
        )
    )
    state = RunState(layout, lost=lost)
    Simulation(state, chance.randrange, lambda: chance.choice(outcomes)).play()
    assert not state.active
    for unit in layout.each_unit():
        phase = state.phase(unit)
        assert phase >= Phase.SUCCEEDED, f"unit {unit} has no final state"
        if phase is Phase.BLOCKED:
            check_root_cause(state, unit, lost)
        if phase is Phase.CANCELLED:
            assert state.stop is not Stop.NO
    if outcomes == ("succeeded",) and not lost:
        assert state.status() is RunStatus.SUCCEEDED
        wanted = (Phase.SUCCEEDED, Phase.EXCLUDED)
        assert all(state.phase(unit) in wanted for unit in layout.each_unit())


def check_root_cause(state: RunState, unit: Unit, lost: list[str]) -> None:
    root = state.root[unit]
    if root < 0:
        assert state.layout.hosts[HostIndex(-1 - root)] in lost
    else:
        assert state.phase(Unit(root)) is Phase.FAILED


@examples(120)
@given(graphs(), chances)
def test_ended_lists_each_unit_the_driver_did_not_end_exactly_once(graph: ExecutionGraph, chance: Chance) -> None:
    layout = Layout(graph)
    state = RunState(layout)
    ended_by_driver: set[Unit] = set()

    class Noted(Simulation):
        def end(self, unit: Unit, postponed: list[Unit]) -> None:
            super().end(unit, postponed)
            if self.state.phase(unit) in (Phase.SUCCEEDED, Phase.SATISFIED, Phase.FAILED, Phase.INTERRUPTED):
                ended_by_driver.add(unit)

    outcomes = ("succeeded", "satisfied", "failed", "gone")
    Noted(state, chance.randrange, lambda: chance.choice(outcomes)).play()
    ended = state.take_ended()
    assert len(ended) == len(set(ended))
    assert set(ended).isdisjoint(ended_by_driver)
    assert set(ended) | ended_by_driver == set(layout.each_unit())
    assert not state.take_ended()


@examples(120)
@given(graphs(), chances)
def test_a_verdict_is_used_only_if_nothing_it_read_was_written_since(graph: ExecutionGraph, chance: Chance) -> None:
    layout = Layout(graph)
    state = RunState(layout)
    began: list[tuple[Unit, int]] = []
    noted: dict[Unit, int] = {}
    active: list[Unit] = []
    for clock in range(60):
        action = chance.choice(("take", "run", "end", "read"))
        if action == "take" and (unit := state.take()) is not None:
            if state.satisfied_ahead(unit):
                for other, when in began:
                    same_host = layout.unit_host[other] == layout.unit_host[unit]
                    reads, writes = layout.reads[layout.unit_node[unit]], layout.writes[layout.unit_node[other]]
                    assert not (when > noted[unit] and same_host and clash(reads, writes)), "a stale verdict was used"
            active.append(unit)
        elif action == "run" and active:
            unit = active[-1]
            if not state.satisfied_ahead(unit):
                state.begin_run(unit)
                began.append((unit, clock))
        elif action == "end" and active:
            state.finish(active.pop(), State.SUCCEEDED)
        elif action == "read" and layout.units:
            early = Unit(chance.randrange(layout.units))
            if state.phase(early) < Phase.ACTIVE:
                state.read_ahead(early, state.claims.clock)
                noted[early] = clock


def node(name: str, hosts: str, **more: object) -> ExecutionNode:
    return ExecutionNode(id=f"m.t.{name}", step=more.pop("step", Sim()), hosts=tuple(hosts), **more)  # type: ignore[arg-type]


def run_state(*nodes: ExecutionNode, policy: FailurePolicy | None = None, lost: tuple[str, ...] = ()) -> RunState:
    graph = ExecutionGraph.build("t", ExecutionFragment((GROUND, *nodes)), policy=policy)
    return RunState(Layout(graph), lost=lost)


def drain(state: RunState, *, fail: tuple[tuple[str, str], ...] = ()) -> list[tuple[str, str]]:
    """Runs everything in the order the state machine gives; returns that order."""
    order = []
    while (unit := state.take()) is not None:
        layout = state.layout
        name = (layout.nodes[layout.unit_node[unit]].id.removeprefix("m.t."), layout.hosts[layout.unit_host[unit]])
        order.append(name)
        if state.demand(unit):
            continue
        state.begin_run(unit)
        state.finish(unit, State.FAILED if name in fail else State.SUCCEEDED)
    state.conclude()
    return order


def phases(state: RunState) -> dict[str, str]:
    layout = state.layout
    return {
        f"{layout.nodes[layout.unit_node[u]].id.removeprefix('m.t.')}@{layout.hosts[layout.unit_host[u]]}": state.final(
            u
        ).value
        for u in layout.each_unit()
        if layout.node_of(u) is not GROUND
    }


def test_same_host_edges_let_fast_hosts_go_ahead() -> None:
    state = run_state(node("one", "ab"), node("two", "ab", after_same_host=("m.t.one",)))
    first, second = state.take(), state.take()
    assert first is not None
    assert second is not None
    state.finish(first, State.SUCCEEDED)
    third = state.take()
    assert third is not None, "a's second step need not wait for b's first"


def test_a_barrier_waits_for_every_host() -> None:
    state = run_state(node("one", "ab"), node("two", "ab", after=("m.t.one",)))
    first, second = state.take(), state.take()
    assert first is not None
    assert second is not None
    state.finish(first, State.SUCCEEDED)
    assert state.take() is None
    state.finish(second, State.SUCCEEDED)
    assert state.take() is not None


def test_the_longest_remaining_path_goes_first() -> None:
    state = run_state(node("short", "a"), node("long", "a"), node("tail", "a", after=("m.t.long",), weight=9.0))
    assert [name for name, _ in drain(state)] == ["long", "tail", "short"]


def test_isolate_blocks_only_what_depends_on_the_failure() -> None:
    state = run_state(
        node("one", "ab"), node("two", "ab", after_same_host=("m.t.one",)), node("all", "a", after=("m.t.two",))
    )
    drain(state, fail=(("one", "a"),))
    assert phases(state) == {
        "one@a": "failed", "one@b": "succeeded", "two@a": "blocked", "two@b": "succeeded", "all@a": "blocked",
    }  # fmt: skip
    assert state.status() is RunStatus.FAILED


def test_fail_fast_starts_nothing_new() -> None:
    state = run_state(
        node("one", "a"), node("two", "b", after=("m.t.zero",)), node("zero", "c"),
        policy=FailurePolicy(FailureMode.FAIL_FAST),
    )  # fmt: skip
    drain(state, fail=(("zero", "c"), ("one", "a")))
    assert sorted(phases(state).values()) in (["blocked", "cancelled", "failed"], ["cancelled", "cancelled", "failed"])


def test_a_host_lost_within_budget_drops_out_of_barriers() -> None:
    policy = FailurePolicy(budgets=(Budget("worker", ("b", "c"), 1),))
    state = run_state(
        node("one", "abc"), node("side", "b", weight=0.1), node("two", "abc", after=("m.t.one",)), policy=policy
    )
    drain(state, fail=(("one", "b"),))
    assert phases(state) == {
        "one@a": "succeeded", "one@b": "failed", "one@c": "succeeded", "side@b": "blocked",
        "two@a": "succeeded", "two@b": "blocked", "two@c": "succeeded",
    }  # fmt: skip
    assert state.status() is RunStatus.PARTIAL


def test_a_loss_beyond_the_budget_is_a_failure() -> None:
    policy = FailurePolicy(budgets=(Budget("worker", ("b", "c"), 1),))
    state = run_state(node("one", "abc"), node("two", "abc", after=("m.t.one",)), policy=policy)
    drain(state, fail=(("one", "b"), ("one", "c")))
    assert phases(state)["two@a"] == "blocked"
    assert state.status() is RunStatus.FAILED


def test_a_host_unreachable_at_the_start_counts_against_the_budget() -> None:
    policy = FailurePolicy(budgets=(Budget("worker", ("b",), 1),))
    state = run_state(node("one", "ab"), node("two", "a", after=("m.t.one",)), policy=policy, lost=("b",))
    drain(state)
    assert phases(state) == {"one@a": "succeeded", "one@b": "blocked", "two@a": "succeeded"}
    assert state.status() is RunStatus.PARTIAL


def test_an_optional_failure_is_done_for_edges_but_blocks_consumers_of_its_value() -> None:
    state = run_state(
        node("maybe", "a", optional=True, step=Sim(makes="k")),
        node("next", "a", after=("m.t.maybe",)),
        node("user", "a", after=("m.t.maybe",), step=Sim(wants=("k",))),
    )
    drain(state, fail=(("maybe", "a"),))
    assert phases(state) == {"maybe@a": "failed", "next@a": "succeeded", "user@a": "blocked"}
    assert state.status() is RunStatus.SUCCEEDED


def test_what_nobody_demands_is_excluded_and_what_somebody_demands_runs_once_before() -> None:
    def state() -> RunState:
        return run_state(
            node("token", "a", on_demand=True, step=Sim(makes="token")),
            node("join", "bc", after=("m.t.token",), step=Sim(wants=("token",))),
        )

    idle = state()
    while (unit := idle.take()) is not None:
        idle.finish(unit, State.SATISFIED)
    assert phases(idle) == {"token@a": "excluded", "join@b": "satisfied", "join@c": "satisfied"}
    busy = state()
    assert drain(busy) == [("join", "b"), ("token", "a"), ("join", "b"), ("join", "c")]
    assert set(phases(busy).values()) == {"succeeded"}


def test_a_unit_blocked_while_it_waits_for_room_does_not_take_the_place_of_another() -> None:
    policy = FailurePolicy(budgets=(Budget("worker", ("b",), 1),))
    state = run_state(node("few", "abc", max_parallel=1), node("other", "b"), policy=policy)
    few, other = state.take(), state.take()
    assert few is not None
    assert other is not None
    state.finish(other, State.FAILED)
    state.finish(few, State.SUCCEEDED)
    drain(state)
    assert phases(state) == {"few@a": "succeeded", "few@b": "blocked", "few@c": "succeeded", "other@b": "failed"}


def test_a_failed_demand_blocks_who_demanded() -> None:
    state = run_state(
        node("token", "a", on_demand=True, step=Sim(makes="token")),
        node("join", "b", after=("m.t.token",), step=Sim(wants=("token",))),
    )
    drain(state, fail=(("token", "a"),))
    assert phases(state) == {"token@a": "failed", "join@b": "blocked"}


@pytest.mark.parametrize("made", [State.INTERRUPTED, None])
def test_a_demand_in_a_cancelled_run_is_cancelled_and_not_blocked(made: State | None) -> None:
    state = run_state(
        node("token", "a", on_demand=True, step=Sim(makes="token")),
        node("join", "bc", after=("m.t.token",), step=Sim(wants=("token",))),
    )
    first, second = state.take(), state.take()
    assert first is not None
    assert second is not None
    if made:
        assert state.demand(first)
        token = state.take()
        assert token is not None
        state.cancel()
        state.finish(token, made)
    else:
        state.cancel()
        assert state.demand(first)
    assert state.demand(second)
    assert state.over
    state.conclude()
    assert phases(state) == {
        "token@a": "interrupted" if made else "excluded", "join@b": "cancelled", "join@c": "cancelled",
    }  # fmt: skip


def test_long_chains_of_blocked_and_excluded_nodes_need_no_deep_recursion() -> None:
    def chain(**more: object) -> list[ExecutionNode]:
        rest = [node(f"n{i}", "a", after=(f"m.t.n{i - 1}",), **more) for i in range(1, 3000)]
        return [node("n0", "a"), *rest]

    blocked = run_state(*chain())
    drain(blocked, fail=(("n0", "a"),))
    assert phases(blocked)["n2999@a"] == "blocked"
    excluded = run_state(*chain(excluded="filtered"))
    drain(excluded)
    assert phases(excluded)["n2999@a"] == "excluded"


def test_a_host_that_is_gone_takes_its_other_work_with_it() -> None:
    state = run_state(node("one", "a"), node("other", "a", weight=0.5), node("far", "b", weight=0.1))
    unit = state.take()
    assert unit is not None
    state.finish(unit, State.FAILED, host_gone=True)
    drain(state)
    assert phases(state) == {"one@a": "failed", "other@a": "blocked", "far@b": "succeeded"}


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ERROR, True),
        (ConnectionLost("cut", host="a"), True),
        (StepError("no", host="a"), False),
        (FencedError("newer", host="a"), False),
        (OutcomeUnknown("who knows", host="a"), False),
        (ValueError("bug"), False),
    ],
)
def test_only_errors_that_may_pass_are_worth_another_attempt(error: Exception, again: bool) -> None:
    assert worth_retrying(error) is again
