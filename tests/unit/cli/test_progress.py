"""Counting a run from its events, with the real engine on in-memory hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kubexm.cli.display.progress import Failure, Progress
from kubexm.events import Event, EventKind
from kubexm.plan import Budget, FailurePolicy
from tests.unit.engine.world import Watcher, World, bare_graph, execute, node


async def test_counts_add_up(tmp_path: Path) -> None:
    world = World("a", "b")
    world.broken.add(("a", "one"))
    world.things["b"].add("two")
    plan = bare_graph(
        node("one", "ab"),
        replace(node("two", "ab"), id="other.t.two"),
        node("three", "a", after=("m.t.one",)),
        node("four", "ab", optional=True),
    )
    progress, failures = Progress(), []
    progress.planned(plan)
    assert progress.total.total == 7
    watcher = Watcher()
    await execute(world, plan, tmp_path, observers=(watcher,))
    for event in watcher.events:
        failure = progress.on_event(event)
        if failure is not None:
            failures.append(failure)
    total = progress.total
    assert (total.total, total.done, total.changed, total.failed, total.bad, total.running) == (7, 7, 4, 1, 2, 0)
    assert {name: (each.done, each.total) for name, each in progress.modules.items()} == {"m": (5, 5), "other": (2, 2)}
    assert {name: each.tally.done for name, each in progress.hosts.items()} == {"a": 4, "b": 3}
    assert all(not host.running for host in progress.hosts.values())
    assert [(each.node, each.host, each.optional) for each in failures] == [("m.t.one", "a", False)]
    assert "it is broken" in failures[0].message
    assert progress.status == "failed"


async def test_without_the_plan_totals_come_from_the_first_event(tmp_path: Path) -> None:
    world = World("a", "b")
    watcher = Watcher()
    await execute(world, bare_graph(node("one", "ab")), tmp_path, observers=(watcher,))
    progress = Progress()
    progress.on_event(watcher.events[0])
    assert (progress.total.total, set(progress.hosts)) == (2, {"a", "b"})
    for event in watcher.events[1:]:
        progress.on_event(event)
    assert progress.total.finished


async def test_a_lost_host_is_marked(tmp_path: Path) -> None:
    world = World("a", "b")
    world.broken.add(("a", "one"))
    policy = FailurePolicy(budgets=(Budget("worker", ("a",), 1),))
    progress = Progress()
    plan = bare_graph(node("one", "ab"), policy=policy)
    progress.planned(plan)
    watcher = Watcher()
    await execute(world, plan, tmp_path, observers=(watcher,))
    for event in watcher.events:
        progress.on_event(event)
    assert "failed on a" in progress.hosts["a"].lost
    assert progress.status == "partial"


def test_the_time_left_is_the_longest_chain_at_the_pace_seen() -> None:
    plan = bare_graph(
        node("one", "a"),
        node("two", "a", after=("m.t.one",)),
        node("three", "a", after=("m.t.two",), weight=3.0),
        node("beside", "a", after=("m.t.one",), weight=2.0),
    )
    progress = Progress()
    progress.planned(plan)
    progress.on_event(Event(1, 100.0, EventKind.RUN_STARTED, data={"units": 4, "hosts": ["a"]}))
    assert progress.remaining(101.0) is None, "too early to tell"
    done = {"state": "succeeded", "started": 100.0}
    progress.on_event(Event(2, 110.0, EventKind.UNIT_DONE, "m.t.one", "a", done))
    assert progress.remaining(110.0) == 40.0
    progress.on_event(Event(3, 115.0, EventKind.UNIT_DONE, "m.t.two", "a", {"state": "succeeded", "started": 110.0}))
    assert progress.remaining(115.0) == 22.5


def test_few_at_once_take_longer() -> None:
    plan = bare_graph(node("one", "abcd", max_parallel=2))
    progress = Progress()
    progress.planned(plan)
    progress.on_event(Event(1, 100.0, EventKind.RUN_STARTED))
    progress.on_event(Event(2, 110.0, EventKind.UNIT_DONE, "m.t.one", "a", {"state": "succeeded", "started": 100.0}))
    assert progress.remaining(110.0) == 20.0, "three are left, two at a time"


def test_what_runs_where() -> None:
    progress = Progress()
    progress.on_event(Event(1, 100.0, EventKind.RUN_STARTED, data={"units": 2, "hosts": ["a"]}))
    progress.on_event(Event(2, 101.0, EventKind.UNIT_RUNNING, "m.t.one", "a"))
    progress.on_event(Event(3, 102.0, EventKind.UNIT_RUNNING, "m.t.one", "a"))
    assert progress.hosts["a"].running == {"m.t.one": 101.0}
    assert progress.total.running == 1
    failure = progress.on_event(Event(4, 103.0, EventKind.UNIT_DONE, "m.t.one", "a", {"state": "interrupted"}))
    assert failure == Failure("m.t.one", "a", "interrupted", "stopped midway")
    assert progress.total.running == 0
