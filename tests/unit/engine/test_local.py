"""What the engine does with steps: skips, runs, rechecks, retries, gives up, stops, resumes, rolls back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest

from kubexm.cache import Key
from kubexm.connector import Command
from kubexm.engine import Cancellation
from kubexm.errors import ConnectError, HostError
from kubexm.events import Event, EventKind
from kubexm.plan import Budget, FailurePolicy, Prediction, Retry, RunStatus
from kubexm.runtime import StepContext
from kubexm.step import Check, Step, Values, resources
from kubexm.store import read_journal, step_logs
from tests.unit.engine.world import GROUND, Shout, Thing, Watcher, World, execute, graph, node, states


async def test_what_is_so_already_is_satisfied_and_the_rest_is_made(tmp_path: Path) -> None:
    world = World("a", "b")
    world.things["a"].add("one")
    result = await execute(world, graph(node("one", "ab")), tmp_path)
    assert states(result) == {"one@a": "satisfied", "one@b": "succeeded"}
    assert world.made == {("b", "one"): 1}
    assert result.status is RunStatus.SUCCEEDED


async def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    world = World("a", "b")
    plan = graph(node("one", "ab"), node("two", "ab", after=("m.t.one",)), node("three", "a", after=("m.t.two",)))
    await execute(world, plan, tmp_path / "first")
    asked = len(world.memory["a"].commands)
    result = await execute(world, plan, tmp_path / "second")
    assert set(states(result).values()) == {"satisfied"}
    assert not result.changed
    assert all(count == 1 for count in world.made.values())
    assert len(world.memory["a"].commands) - asked == 3, "each state is read once"


async def test_a_failure_tells_host_command_code_and_output_and_blocks_what_follows(tmp_path: Path) -> None:
    world = World("a", "b")
    world.broken.add(("a", "one"))
    result = await execute(world, graph(node("one", "ab"), node("two", "b", after=("m.t.one",))), tmp_path)
    assert states(result) == {"one@a": "failed", "one@b": "succeeded", "two@b": "blocked"}
    failed = result.nodes["m.t.one"].hosts["a"]
    assert failed.error is not None
    assert (failed.error.command, failed.error.exit_code) == ("make one", 7)
    assert "it is broken" in failed.error.message
    assert "it is broken" in failed.stderr
    assert result.nodes["m.t.two"].hosts["b"].root_cause == ("m.t.one", "a")
    assert result.status is RunStatus.FAILED
    assert (tmp_path / "logs" / "m.t.one@a.log").read_text() == "error: it is broken\n"


async def test_retries_are_made_and_told(tmp_path: Path) -> None:
    world = World("a")
    world.failures["a", "one"] = 2
    watcher = Watcher()
    plan = graph(node("one", "a", retry=Retry(times=2, delay=0.001)))
    result = await execute(world, plan, tmp_path, observers=(watcher,))
    assert states(result) == {"one@a": "succeeded"}
    assert result.nodes["m.t.one"].hosts["a"].attempts == 3
    assert [event.kind for event in watcher.events].count(EventKind.UNIT_RETRY) == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Late(Thing):
    """Made at once, there only at the third look."""

    looks: list[int] = field(default_factory=list)
    settle: ClassVar[float] = 30.0

    async def precheck(self, ctx: StepContext) -> Check:
        found = await Thing.precheck(self, ctx)
        if found.satisfied:
            self.looks.append(1)
        return found if len(self.looks) > 3 else Check(False)


async def test_after_run_the_state_is_read_until_it_holds(tmp_path: Path) -> None:
    late = Late(name="one")
    result = await execute(World("a"), graph(node("one", "a", late)), tmp_path)
    assert states(result) == {"one@a": "succeeded"}
    assert len(late.looks) == 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie(Thing):
    """Says it did, and did not."""

    async def run(self, ctx: StepContext) -> Values | None:
        return None


async def test_a_state_that_does_not_come_about_is_a_failure(tmp_path: Path) -> None:
    result = await execute(World("a"), graph(node("one", "a", Lie(name="one"))), tmp_path)
    error = result.nodes["m.t.one"].hosts["a"].error
    assert error is not None
    assert "still not so" in error.message
    assert "it is not there" in error.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddler(Thing):
    """A precheck that changes things: a bug."""

    async def precheck(self, ctx: StepContext) -> Check:
        await ctx.host.connector.execute(Command(script="make mess", changes=True))
        return Check(True)


async def test_a_precheck_cannot_change_anything(tmp_path: Path) -> None:
    world = World("a")
    result = await execute(world, graph(node("one", "a", Meddler(name="one"))), tmp_path)
    assert states(result) == {"one@a": "failed"}
    assert not world.made


async def test_values_reach_consumers_and_secrets_reach_nothing_else(tmp_path: Path) -> None:
    world = World("a", "b")
    plan = graph(
        node("one", "a", Thing(name="one", makes="token", secret=True)),
        node("plain", "a", Thing(name="plain", makes="plain")),
        node("two", "b", Thing(name="two", wants=("token", "plain")), after=("m.t.one", "m.t.plain")),
    )
    watcher = Watcher()
    result = await execute(world, plan, tmp_path, observers=(watcher,))
    assert set(states(result).values()) == {"succeeded"}
    journal = (tmp_path / "journal").read_text()
    assert "hush-one" not in journal
    assert "hush-one" not in str(watcher.events)
    assert "value of plain" in journal
    kept = tmp_path / "work" / "secrets" / "value-token"
    assert kept.read_text() == "hush-one"
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_a_dry_run_predicts_and_changes_nothing(tmp_path: Path) -> None:
    world = World("a")
    world.things["a"].add("one")
    plan = graph(
        node("one", "a"),
        node("two", "a"),
        node("again", "a", Thing(name="two"), after=("m.t.two",)),
        node("apart", "a", Thing(name="one"), after=("m.t.two",)),
        node("token", "a", Thing(name="token", makes="token"), on_demand=True),
        node("join", "a", Thing(name="join", wants=("token",)), after=("m.t.token",)),
    )
    result = await execute(world, plan, tmp_path, dry_run=True)
    predicted = {name.removeprefix("m.t."): host.prediction for name, host in result.results() if name != GROUND.id}
    assert predicted == {
        "one": Prediction.NO_CHANGE,
        "two": Prediction.CHANGE,
        "again": Prediction.UNKNOWN,
        "apart": Prediction.NO_CHANGE,
        "token": Prediction.CHANGE,
        "join": Prediction.CHANGE,
    }
    assert not world.made
    assert result.changed


async def test_a_host_unreachable_at_the_start_is_blocked_and_within_budget_partial(tmp_path: Path) -> None:
    world = World("a")
    policy = FailurePolicy(budgets=(Budget("worker", ("w",), 1),))
    gone = {"w": ConnectError("no route to host", host="w")}
    plan = graph(node("one", "aw"), node("two", "a", after=("m.t.one",)), policy=policy)
    result = await execute(world, plan, tmp_path, unreached=dict(gone))
    assert states(result) == {"one@a": "succeeded", "one@w": "blocked", "two@a": "succeeded"}
    assert result.status is RunStatus.PARTIAL
    assert "no route to host" in result.lost_hosts["w"]
    assert result.nodes["m.t.one"].hosts["w"].root_cause == ("", "w")


_events: dict[str, asyncio.Event] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Step):
    """Goes on until it is stopped or let go."""

    name: str

    @property
    def gate(self) -> asyncio.Event:
        return _events.setdefault(f"{self.name} gate", asyncio.Event())

    @property
    def begun(self) -> asyncio.Event:
        return _events.setdefault(f"{self.name} begun", asyncio.Event())

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(self.gate.is_set())

    async def run(self, ctx: StepContext) -> Values | None:
        self.begun.set()
        await self.gate.wait()
        return None


async def test_cancelling_once_finishes_what_runs_and_starts_nothing(tmp_path: Path) -> None:
    world, slow, cancellation = World("a"), Slow(name="once"), Cancellation()
    plan = graph(node("slow", "a", slow), node("next", "a", after=("m.t.slow",)))
    running = asyncio.create_task(execute(world, plan, tmp_path, cancellation=cancellation))
    await slow.begun.wait()
    cancellation.cancel()
    slow.gate.set()
    result = await running
    assert states(result) == {"slow@a": "succeeded", "next@a": "cancelled"}
    assert result.status is RunStatus.CANCELLED


async def test_cancelling_twice_stops_now(tmp_path: Path) -> None:
    world, slow, cancellation = World("a"), Slow(name="twice"), Cancellation()
    plan = graph(node("slow", "a", slow), node("next", "a", after=("m.t.slow",)))
    running = asyncio.create_task(execute(world, plan, tmp_path, cancellation=cancellation))
    await slow.begun.wait()
    cancellation.cancel()
    cancellation.cancel()
    result = await running
    assert states(result) == {"slow@a": "interrupted", "next@a": "cancelled"}
    assert result.status is RunStatus.INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reluctant(Slow):
    """Takes its time to stop."""

    @property
    def stopping(self) -> asyncio.Event:
        return _events.setdefault(f"{self.name} stopping", asyncio.Event())

    @property
    def released(self) -> asyncio.Event:
        return _events.setdefault(f"{self.name} released", asyncio.Event())

    async def run(self, ctx: StepContext) -> Values | None:
        try:
            return await Slow.run(self, ctx)
        finally:
            self.stopping.set()
            await self.released.wait()


async def test_a_task_cancelled_again_while_it_stops_still_gives_every_unit_its_state(tmp_path: Path) -> None:
    slow = Reluctant(name="reluctant")
    plan = graph(node("slow", "b", slow), node("next", "ab", after=("m.t.slow",)))
    running = asyncio.create_task(execute(World("a", "b"), plan, tmp_path))
    await slow.begun.wait()
    running.cancel()
    await slow.stopping.wait()
    running.cancel()
    asyncio.get_running_loop().call_soon(slow.released.set)
    result = await running
    assert states(result) == {"slow@b": "interrupted", "next@a": "cancelled", "next@b": "cancelled"}
    assert read_journal(tmp_path / "journal")[-1].kind is EventKind.RUN_ENDED


async def test_a_step_past_its_time_is_stopped_and_fails(tmp_path: Path) -> None:
    result = await execute(World("a"), graph(node("slow", "a", Slow(name="late"), timeout=0.01)), tmp_path)
    error = result.nodes["m.t.slow"].hosts["a"].error
    assert error is not None
    assert "did not finish within 0.01 s" in error.message


async def test_rollback_undoes_what_this_run_changed_in_reverse_and_nothing_else(tmp_path: Path) -> None:
    world = World("a", "b")
    world.things["b"].add("one")
    world.broken.add(("a", "three"))
    plan = graph(
        node("one", "ab"),
        node("two", "ab", after=("m.t.one",)),
        node("shout", "a", Shout(name="shout"), after=("m.t.two",)),
        node("three", "a", after=("m.t.shout",)),
    )
    watcher = Watcher()
    result = await execute(world, plan, tmp_path, rollback=True, observers=(watcher,))
    assert result.status is RunStatus.FAILED
    assert world.things == {"a": {"shout"}, "b": {"one"}}
    undone = [(e.node, e.host) for e in watcher.events if e.kind is EventKind.ROLLBACK_DONE]
    assert [name for name, _ in undone] == ["m.t.three", "m.t.two", "m.t.two", "m.t.one"]
    assert result.nodes["m.t.shout"].hosts["a"].rolled_back is False
    assert result.nodes["m.t.one"].hosts["b"].rolled_back is None


async def test_observers_see_what_the_journal_has_and_a_failing_one_changes_nothing(tmp_path: Path) -> None:
    class Faulty:
        def on_event(self, event: Event) -> None:
            raise RuntimeError("observer's own trouble")

    watcher = Watcher()
    result = await execute(World("a", "b"), graph(node("one", "ab")), tmp_path, observers=(Faulty(), watcher))
    assert result.status is RunStatus.SUCCEEDED
    journalled = read_journal(tmp_path / "journal")
    assert [event for event in watcher.events if event.seq] == journalled
    assert [event.seq for event in journalled] == list(range(1, len(journalled) + 1))
    logs = [(log.node, log.host, log.state) for log in step_logs(journalled) if log.node != GROUND.id]
    assert logs == [
        ("m.t.one", "a", "succeeded"),
        ("m.t.one", "b", "succeeded"),
    ]


async def test_intent_is_on_disk_before_a_change_begins(tmp_path: Path) -> None:
    seen: list[bool] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Nosy(Thing):
        async def run(self, ctx: StepContext) -> Values | None:
            events = read_journal(tmp_path / "journal")
            seen.append(any(e.kind is EventKind.UNIT_RUNNING and e.host == ctx.host.name for e in events))
            return await Thing.run(self, ctx)

    await execute(World("a", "b"), graph(node("one", "ab", Nosy(name="one"))), tmp_path)
    assert seen == [True, True]


async def test_a_journal_that_cannot_be_written_stops_the_run_before_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, lines: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kubexm.engine.journal.Journal._write", full)
    world = World("a")
    with pytest.raises(Exception, match="journal cannot be written: No space left on device"):
        await execute(world, graph(node("one", "a"), node("two", "a", after=("m.t.one",))), tmp_path)
    assert not world.made


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Thing):
    """Takes every host's value."""

    seen: list[dict[str, str]] = field(default_factory=list)

    def gathers(self) -> tuple[Key[str], ...]:
        return (Key("host-value", per_host=True),)

    async def run(self, ctx: StepContext) -> Values | None:
        self.seen.append(dict(ctx.values(self.gathers()[0])))
        return await Thing.run(self, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Give(Thing):
    """Produces a value on each host."""

    def produces(self) -> tuple[Key[str], ...]:
        return (Key("host-value", per_host=True),)

    async def precheck(self, ctx: StepContext) -> Check:
        found = await Thing.precheck(self, ctx)
        return replace(found, values={self.produces()[0]: f"of {ctx.host.name}"} if found.satisfied else {})


async def test_values_of_all_hosts_can_be_gathered(tmp_path: Path) -> None:
    gather = Gather(name="all")
    plan = graph(node("give", "ab", Give(name="give")), node("all", "a", gather, after=("m.t.give",)))
    await execute(World("a", "b"), plan, tmp_path)
    assert gather.seen == [{"a": "of a", "b": "of b"}]


async def test_a_verdict_read_ahead_is_not_used_after_a_write_it_could_see(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Breaker(Thing):
        async def run(self, ctx: StepContext) -> Values | None:
            world.things["a"].discard("victim")
            return await Thing.run(self, ctx)

        def writes(self) -> frozenset[str]:
            return resources(f"thing:{self.name}", "thing:victim")

    world = World("a")
    world.things["a"].add("victim")
    plan = graph(node("breaker", "a", Breaker(name="breaker")), node("victim", "a", after=("m.t.breaker",)))
    result = await execute(world, plan, tmp_path)
    assert states(result) == {"breaker@a": "succeeded", "victim@a": "succeeded"}
    assert world.things["a"] == {"breaker", "victim"}


async def test_a_host_that_cannot_be_reached_and_has_no_budget_fails_the_run_and_is_named(tmp_path: Path) -> None:
    gone = {"w": ConnectError("no route to host", host="w")}
    plan = graph(node("one", "aw"), node("two", "a", after_same_host=("m.t.one",)))
    result = await execute(World("a"), plan, tmp_path, unreached=dict(gone))
    assert states(result) == {"one@a": "succeeded", "one@w": "blocked", "two@a": "succeeded"}
    assert result.status is RunStatus.FAILED
    assert "no route to host" in result.unreached["w"]
    assert not result.lost_hosts


async def test_a_second_rollback_of_one_run_undoes_again(tmp_path: Path) -> None:
    world = World("a")
    world.broken.add(("a", "two"))
    plan = graph(node("one", "a"), node("two", "a", after=("m.t.one",)))
    await execute(world, plan, tmp_path, rollback=True)
    assert world.things["a"] == set()
    again = await execute(world, plan, tmp_path, resume=True, rollback=True)
    assert again.nodes["m.t.one"].hosts["a"].rolled_back is True
    assert world.things["a"] == set(), "told to be rolled back, and it was not"


async def test_rollback_leaves_out_a_host_that_is_gone(tmp_path: Path) -> None:
    world = World("a", "b")
    policy = FailurePolicy(budgets=(Budget("worker", ("b",), 1),))
    plan = graph(node("one", "ab"), node("two", "a", after=("m.t.one",)), policy=policy)
    world.broken.add(("a", "two"))
    await execute(world, plan, tmp_path)
    del world.memory["b"]
    gone: dict[str, HostError] = {"b": ConnectError("gone", host="b")}
    result = await execute(world, plan, tmp_path, resume=True, rollback=True, unreached=gone)
    assert result.status is RunStatus.FAILED
    assert "one" not in world.things["a"]


async def test_stopped_between_two_attempts_a_unit_has_failed_with_the_last_ones_error(tmp_path: Path) -> None:
    world, stop = World("a"), Cancellation()
    world.failures["a", "one"] = 5

    class Stopper:
        def on_event(self, event: Event) -> None:
            if event.kind is EventKind.UNIT_RETRY:
                asyncio.get_running_loop().call_soon(stop.cancel)

    plan = graph(node("one", "a", retry=Retry(times=9, delay=5)))
    result = await execute(world, plan, tmp_path, cancellation=stop, observers=(Stopper(),))
    assert states(result) == {"one@a": "failed"}
    ended = result.nodes["m.t.one"].hosts["a"]
    assert ended.attempts == 1
    assert ended.error is not None
    assert ended.error.command == "make one"
