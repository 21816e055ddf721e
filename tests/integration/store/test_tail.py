"""The journal in the store: whole, in order, once, whatever happened in between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubexm.errors import JournalError, StoreError
from kubexm.events import Event, EventKind
from kubexm.store import to_line
from kubexm.store.runs import Runs
from kubexm.store.store import Store
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task


class JournalFile:
    """A journal as the engine writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []

    def add(self, kind: EventKind, node: str = "", host: str = "", **data: Any) -> Event:
        event = Event(len(self.events) + 1, 1000.0 + len(self.events), kind, node, host, data)
        self.events.append(event)
        with self.path.open("ab") as file:
            file.write(to_line(event))
        return event

    def run(self, hosts: int, nodes: int) -> None:
        self.add(EventKind.RUN_STARTED, units=hosts * nodes, graph="f" * 64)
        for node in range(nodes):
            for host in range(hosts):
                name = f"a.b.n{node}", f"h{host}"
                self.add(EventKind.UNIT_RUNNING, *name, attempt=1)
                self.add(EventKind.UNIT_DONE, *name, state="succeeded", started=999.0, attempts=1, stdout=f"{name}")
        self.add(EventKind.RUN_ENDED, status="succeeded")


@pytest.fixture
def journal(tmp_path: Path) -> JournalFile:
    return JournalFile(tmp_path / "journal")


async def new_task(store: Store, name: str = "t1") -> Task:
    assert await store.tasks.add(Task(id=name, cluster="demo", action="create"), alone=False) is None
    return await store.tasks.get(name)


async def kept(store: Store, task: Task) -> list[tuple[int, str]]:
    return [(event.seq, event.kind) for event in await store.runs.events(task.n, limit=10_000)]


def told(events: Sequence[Event]) -> list[tuple[int, str]]:
    return [(event.seq, event.kind.value) for event in events]


async def test_a_journal_is_taken_whole_and_in_order(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    journal.run(hosts=7, nodes=30)
    tail = JournalTail(store.runs, task.n, journal.path)
    assert await tail.catch_up() == len(journal.events)
    assert tail.over
    assert await kept(store, task) == told(journal.events)
    task = await store.tasks.get("t1")
    assert (task.seq, task.units, task.graph) == (len(journal.events), 210, "f" * 64)
    assert task.tally == {"succeeded": 210}
    nodes = await store.runs.node_results(task.n)
    assert len(nodes) == 30
    assert {(node.state, node.tally["succeeded"], node.started) for node in nodes} == {("succeeded", 7, 999.0)}
    assert await tail.catch_up() == 0


async def test_a_tail_that_was_away_goes_on_where_the_store_is(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    journal.add(EventKind.RUN_STARTED, units=2, graph="")
    journal.add(EventKind.UNIT_DONE, "a.b.c", "h1", state="failed", error={"message": "no", "hint": "do"})
    await JournalTail(store.runs, task.n, journal.path).catch_up()
    journal.add(EventKind.RUN_ENDED, status="failed")
    journal.add(EventKind.RUN_RESUMED, units=2, graph="")
    journal.add(EventKind.UNIT_DONE, "a.b.c", "h1", state="succeeded")
    tail = JournalTail(store.runs, task.n, journal.path)
    assert await tail.catch_up() == 3
    assert not tail.over
    assert await kept(store, task) == told(journal.events)
    assert (await store.tasks.get("t1")).tally == {"succeeded": 1}, "a unit that ends again counts once"
    (result,) = await store.runs.host_results(task.n)
    assert (result.state, result.error) == ("succeeded", "")
    logs = await store.runs.step_logs(task.n)
    assert [(log.state, log.error, log.hint) for log in logs] == [("failed", "no", "do")]


async def test_a_torn_line_waits_until_it_is_whole(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    journal.add(EventKind.RUN_STARTED, units=1)
    line = to_line(Event(2, 1.0, EventKind.RUN_ENDED, data={"status": "failed"}))
    with journal.path.open("ab") as file:
        file.write(line[:20])
    tail = JournalTail(store.runs, task.n, journal.path)
    assert await tail.catch_up() == 1
    with journal.path.open("ab") as file:
        file.write(line[20:])
    assert await tail.catch_up() == 1
    assert await kept(store, task) == [(1, "run.started"), (2, "run.ended")]


async def test_what_the_database_refused_is_taken_later(
    store: Store, journal: JournalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await new_task(store)
    journal.run(hosts=600, nodes=2)
    tail, whole, calls = JournalTail(store.runs, task.n, journal.path), Runs.take, 0

    async def sometimes(runs: Runs, *arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls in (2, 3):
            raise StoreError("away")
        return await whole(runs, *arguments)

    monkeypatch.setattr(Runs, "take", sometimes)
    for _ in range(2):
        with pytest.raises(StoreError):
            await tail.catch_up()
    await tail.catch_up()
    assert await kept(store, task) == told(journal.events)
    assert (await store.tasks.get("t1")).tally == {"succeeded": 1200}


async def test_a_journal_that_lost_its_end_to_a_power_cut_is_taken_anew(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    journal.run(hosts=3, nodes=1)
    await JournalTail(store.runs, task.n, journal.path).catch_up()
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join(lines[:-3]))
    again = Event(len(lines) - 2, 5000.0, EventKind.RUN_RESUMED, data={"units": 3})
    with journal.path.open("ab") as file:
        file.write(to_line(again))
    await JournalTail(store.runs, task.n, journal.path).catch_up()
    assert (await kept(store, task))[-1] == (again.seq, "run.resumed")
    assert (await store.tasks.get("t1")).seq == again.seq


async def test_damage_is_told(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    journal.run(hosts=1, nodes=1)
    journal.path.write_bytes(journal.path.read_bytes().replace(b"unit.done", b"unit.gone"))
    with pytest.raises(JournalError, match="damaged"):
        await JournalTail(store.runs, task.n, journal.path).catch_up()


async def test_output_that_no_database_takes_as_it_is(store: Store, journal: JournalFile) -> None:
    task = await new_task(store)
    bad = "nul \0 here, half a character \ud83d there"
    journal.add(EventKind.UNIT_DONE, "a.b.c", "h1", state="failed", stdout=bad, error={"message": bad, "stderr": bad})
    await JournalTail(store.runs, task.n, journal.path).catch_up()
    (log,) = await store.runs.step_logs(task.n)
    assert "nul � here" in log.stdout
    assert log.stderr == log.error
    (event,) = await store.runs.events(task.n)
    assert "stdout" not in event.data
    assert "stderr" not in event.data


STATES = ["succeeded", "satisfied", "failed", "blocked"]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_whatever_the_pieces_the_whole_is_the_same(data: st.DataObject, store: Store, tmp_path: Path) -> None:
    number = len(list(tmp_path.iterdir()))
    journal = JournalFile(tmp_path / f"journal{number}")
    task = await new_task(store, f"t{number}")
    tail, last = JournalTail(store.runs, task.n, journal.path), {}
    for _ in range(data.draw(st.integers(1, 5))):
        for _ in range(data.draw(st.integers(1, 20))):
            unit = data.draw(st.sampled_from(["n1", "n2"])), data.draw(st.sampled_from(["h1", "h2", "h3"]))
            last[unit] = data.draw(st.sampled_from(STATES))
            journal.add(EventKind.UNIT_DONE, *unit, state=last[unit])
        if data.draw(st.booleans()):
            tail = JournalTail(store.runs, task.n, journal.path)
        await tail.catch_up(batches=data.draw(st.sampled_from([None, 1])))
    await tail.catch_up()
    assert await kept(store, task) == told(journal.events)
    assert {(each.node, each.host): each.state for each in await store.runs.host_results(task.n)} == last
    tally = (await store.tasks.get(task.id)).tally
    assert tally == {state: list(last.values()).count(state) for state in sorted(set(last.values()))}
