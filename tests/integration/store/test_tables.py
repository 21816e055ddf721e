"""What is kept and asked for: clusters, tasks, results, plans, answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import ConflictError, NotFoundError
from kubexm.events import Event, EventKind
from kubexm.store import to_line
from kubexm.store.clusters import FactsRecord
from kubexm.store.plans import KeptAnswer, PlanRecord
from kubexm.store.store import Store
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task, TaskState


async def test_every_version_of_a_spec_is_kept_with_who_changed_what(store: Store) -> None:
    made = await store.clusters.add("demo", "one", by="ann", note="first")
    assert (made.version, made.state) == (1, "registered")
    edit = {"path": "spec.x", "old": 1, "new": 2, "kind": "live"}
    edited = await store.clusters.edit("demo", "two", [edit], by="bob", on=1)
    assert edited.version == 2
    with pytest.raises(ConflictError, match="is at version 2, and this edit is of version 1"):
        await store.clusters.edit("demo", "three", [], by="cat", on=1)
    newest, first = await store.clusters.specs("demo")
    assert (newest.version, newest.text, newest.created_by, newest.edits) == (2, "two", "bob", (edit,))
    assert (first.text, first.note) == ("one", "first")
    assert (await store.clusters.spec("demo", 1)).text == "one"
    with pytest.raises(NotFoundError, match="has no version 7"):
        await store.clusters.spec("demo", 7)
    with pytest.raises(ConflictError, match="there is a cluster 'demo' already"):
        await store.clusters.add("demo", "x", by="ann")
    assert [each.name for each in await store.clusters.page()] == ["demo"]
    assert await store.clusters.page(names=[]) == []


async def test_a_cluster_that_is_removed_leaves_nothing_behind(store: Store) -> None:
    from kubexm.redact import Secret

    await store.clusters.add("demo", "one", by="ann")
    await store.vault.put_secret("demo", "pw", Secret("hush"), by="ann")
    await store.vault.put_file("demo", "key", b"k", by="ann")
    await store.clusters.put_facts("demo", [FactsRecord(host="n1", time=1.0, facts={"os": {}}, error="")])
    assert [each.host for each in await store.clusters.facts("demo")] == ["n1"]
    await store.clusters.remove("demo")
    with pytest.raises(NotFoundError):
        await store.clusters.get("demo")
    await store.clusters.add("demo", "another's", by="eve")
    assert await store.vault.open_secrets("demo") == {}
    assert await store.vault.files("demo") == []
    assert await store.clusters.facts("demo") == []


def task(number: int, **values: object) -> Task:
    return Task(**{"id": f"t{number:04}", "cluster": "demo", "action": "create", "created": float(number), **values})  # type: ignore[arg-type]


async def test_of_many_writers_at_once_one_is_let_in_and_the_others_learn_which(store: Store) -> None:
    wanted = [task(number, changes=True) for number in range(12)]
    refused = await asyncio.gather(*(store.tasks.add(each, alone=True) for each in wanted))
    (winner,) = [each.id for each, other in zip(wanted, refused, strict=True) if other is None]
    assert {other.id for other in refused if other is not None} == {winner}
    assert await store.tasks.add(task(50, changes=True, cluster="other"), alone=True) is None
    assert await store.tasks.add(task(51), alone=False) is None
    await store.tasks.change(winner, state=TaskState.FAILED)
    assert await store.tasks.writer("demo") is None
    assert await store.tasks.add(task(52, changes=True), alone=True) is None
    ended = await store.tasks.get(winner)
    other = await store.tasks.reopen(ended, "ann")
    assert other is not None
    assert other.id == "t0052"


async def test_tasks_by_pages_and_filters(store: Store) -> None:
    states = list(TaskState)
    for number in range(20):
        each = task(number, state=states[number % 7], cluster="even" if number % 2 == 0 else "odd", actor="ann")
        await store.tasks.add(each, alone=False)
    seen, before = [], None
    while page := await store.tasks.page(before=before, limit=6):
        seen += [each.id for each in page]
        before = page[-1].n
    assert seen == [f"t{number:04}" for number in reversed(range(20))]
    assert len(await store.tasks.page(clusters=["even"])) == 10
    assert await store.tasks.page(clusters=[]) == []
    assert {each.state for each in await store.tasks.page(states=["failed", "queued"])} == {"failed", "queued"}
    assert await store.tasks.page(actions=["delete"]) == []
    assert len(await store.tasks.page(actor="ann")) == 20
    assert (await store.tasks.count())["queued"] == 3
    assert {name: each.id for name, each in (await store.tasks.latest(["even", "odd"])).items()} == {
        "even": "t0018",
        "odd": "t0019",
    }
    assert await store.tasks.known(["t0001", "nobody"]) == {"t0001"}


async def test_a_state_is_changed_only_from_where_it_was_expected(store: Store) -> None:
    await store.tasks.add(task(1), alone=False)
    assert await store.tasks.change("t0001", only_if={TaskState.QUEUED}, state=TaskState.CANCELLED)
    assert not await store.tasks.change("t0001", only_if={TaskState.QUEUED}, state=TaskState.RUNNING)
    assert (await store.tasks.get("t0001")).state is TaskState.CANCELLED


async def filled(store: Store, tmp_path: Path, each: Task, size: int) -> Task:
    await store.tasks.add(each, alone=False)
    found = await store.tasks.get(each.id)
    path = tmp_path / each.id
    started = Event(1, 1.0, EventKind.RUN_STARTED, data={"units": 1, "graph": "9" * 64})
    done = Event(2, 2.0, EventKind.UNIT_DONE, "a.b.c", "h1", {"state": "succeeded", "stdout": "x" * size})
    path.write_bytes(to_line(started) + to_line(done))
    await JournalTail(store.runs, found.n, path).catch_up()
    return await store.tasks.get(each.id)


async def test_what_is_too_old_or_too_much_is_found_and_forgotten(store: Store, tmp_path: Path) -> None:
    now = time.time()
    done = TaskState.SUCCEEDED
    old = await filled(store, tmp_path, task(1, state=done, ended=now - 1000), 10)
    big = await filled(store, tmp_path, task(2, state=done, ended=now - 10), 50_000)
    await filled(store, tmp_path, task(3, state=TaskState.RUNNING), 50_000)
    small = await filled(store, tmp_path, task(4, state=done, ended=now - 5), 10)
    assert big.bytes > 50_000
    assert [each.id for each in await store.tasks.expired(now - 100, 10**9)] == [old.id]
    total = sum(each.bytes for each in await store.tasks.page())
    assert await store.tasks.expired(0.0, total) == []
    assert [each.id for each in await store.tasks.expired(0.0, total - 1)] == [old.id]
    assert [each.id for each in await store.tasks.expired(0.0, 60_000)] == [old.id, big.id]
    assert [each.id for each in await store.tasks.expired(now - 100, 0)] == [old.id, big.id, small.id]
    await store.runs.put_graph("9" * 64, b"{}")
    for each in (old, big):
        await store.tasks.forget(each)
        assert await store.runs.events(each.n) == []
        assert await store.runs.step_logs(each.n) == []
    assert await store.runs.graph("9" * 64) == b"{}", "others still have this graph"
    await store.tasks.forget(small)
    await store.tasks.forget(await store.tasks.get("t0003"))
    with pytest.raises(NotFoundError):
        await store.runs.graph("9" * 64)


async def test_results_and_logs_are_found_by_node_host_state_and_text(store: Store, tmp_path: Path) -> None:
    await store.tasks.add(task(1), alone=False)
    number = (await store.tasks.get("t0001")).n
    lines, seq = [], 0
    for node in ("etcd.install.start", "etcd.install.stop", "etcd_x.a.b", "os.swap.off"):
        for host in ("n1", "n2"):
            seq += 1
            state = "failed" if node == "os.swap.off" else "succeeded"
            data = {"state": state, "started": 1.0, "stdout": f"100% of {node} on {host}", "root_cause": [node, host]}
            lines.append(to_line(Event(seq, float(seq), EventKind.UNIT_DONE, node, host, data)))
    (tmp_path / "journal").write_bytes(b"".join(lines))
    await JournalTail(store.runs, number, tmp_path / "journal").catch_up()
    runs = store.runs
    assert len(await runs.host_results(number, node="etcd")) == 4, "a module, and not one whose name begins alike"
    assert len(await runs.host_results(number, node="etcd.install.start", host="n2")) == 1
    assert {each.node for each in await runs.host_results(number, states=["failed"])} == {"os.swap.off"}
    first = await runs.host_results(number, limit=3)
    rest = await runs.host_results(number, after=(first[-1].node, first[-1].host))
    assert len(first) + len(rest) == 8
    assert [log.seq for log in await runs.step_logs(number, contains="SWAP")] == [7, 8]
    assert [log.seq for log in await runs.step_logs(number, contains="100%", latest=True, limit=2)] == [7, 8]
    assert await runs.step_logs(number, contains="1__%") == []
    assert [log.seq for log in await runs.step_logs(number, after=6)] == [7, 8]


async def test_plans_are_kept_whole_and_listed_without_their_bodies(store: Store) -> None:
    plan = PlanRecord(
        id="p1",
        cluster="demo",
        pipeline="create",
        spec_version=1,
        created=1.0,
        created_by="ann",
        offline=False,
        changes=True,
        nodes=3,
        units=9,
        digest="d",
        body=b"{}" * 1000,
    )
    await store.plans.add(plan)
    await store.plans.add(replace(plan, id="p2"))
    assert await store.plans.get("p1") == plan
    assert [(each.id, each.body) for each in await store.plans.page("demo")] == [("p2", b""), ("p1", b"")]
    assert [each.id for each in await store.plans.page("demo", before="p2")] == ["p1"]
    with pytest.raises(NotFoundError):
        await store.plans.get("p3")


async def test_a_request_that_comes_twice_is_answered_once(store: Store) -> None:
    answers = store.answers
    outcomes = await asyncio.gather(*(answers.begin("tok", "k", "f") for _ in range(5)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["ConflictError"] * 4 + ["NoneType"]
    answer = KeptAnswer(status=202, headers={"location": "/x"}, body="{}")
    await answers.end("tok", "k", answer)
    assert await answers.begin("tok", "k", "f") == answer
    assert await answers.begin("other", "k", "f") is None, "keys are each token's own"
    with pytest.raises(ConflictError, match="used for another request"):
        await answers.begin("tok", "k", "g")
    await answers.drop_unfinished()
    assert await answers.begin("other", "k", "f") is None
    assert await answers.begin("tok", "k", "f") == answer
