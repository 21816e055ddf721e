"""Tasks end to end: real runs in worker processes, one writer, turns, stopping, killing, resuming."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import ConfigError, ConflictError, NotFoundError, UsageError
from kubexm.plan import RunSpec
from kubexm.redact import Secret
from kubexm.service import ClusterService, ServiceOptions
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.tasks import TaskOptions, TaskService
from kubexm.service.wanted import Kind, Wanted
from kubexm.store.store import Store
from kubexm.store.tasks import Task, TaskState
from tests.integration.service.conftest import ended, until
from tests.integration.service.work import spec
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root

CREATE = Wanted(cluster="demo", spec=RunSpec("create"))
LOOK = Wanted(cluster="demo", spec=RunSpec("preflight"))


async def test_a_task_runs_to_its_end_and_everything_of_it_is_kept(
    service: TaskService, store: Store, demo: str, root: Path, places: Places
) -> None:
    (root / "go").touch()
    task = await service.submit(CREATE, "ann")
    assert (task.state, task.changes, task.spec_version) == (TaskState.QUEUED, True, 1)
    done = await ended(store, task)
    assert done.state is TaskState.SUCCEEDED
    assert done.error == {}
    assert (root / "last").read_text() == "done\n"
    assert done.tally == {"succeeded": 3}
    assert done.kept
    files = service.run_files(done)
    assert [event.seq for event in await store.runs.events(done.n)] == [event.seq for event in files.events()]
    assert done.seq == files.events()[-1].seq
    graph = await store.runs.graph(done.graph)
    assert graph == (files.path / "graph.json").read_bytes()
    (log,) = [log for log in await store.runs.step_logs(done.n) if log.node == "work.do.wait"]
    assert "waiting" in log.stdout
    assert (await store.clusters.get("demo")).state == "up"
    assert not places.staged("demo").exists(), "what was opened is closed again"
    (entry,) = await store.audit.page(limit=1)
    assert (entry.actor, entry.target, entry.outcome) == ("ann", task.id, "succeeded")
    here = ClusterService(ServiceOptions(work_dir=str(places.work)))
    assert [run.id for run in here.runs()] == [task.id], "the command line sees the same runs"


async def test_one_writer_for_each_cluster_and_readers_beside_it(
    service: TaskService, store: Store, registry: Registry, demo: str, root: Path
) -> None:
    first = await service.submit(CREATE, "ann")
    with pytest.raises(ConflictError, match=f"task {first.id} .* is changing demo") as caught:
        await service.submit(replace(CREATE, spec=RunSpec("delete")), "bob")
    assert caught.value.task == first.id
    with pytest.raises(ConflictError):
        await service.submit(replace(LOOK, spec=RunSpec("preflight", {"fix": True})), "bob")
    look = await service.submit(LOOK, "bob")
    plan = await service.submit(Wanted(cluster="demo", kind=Kind.PLAN, spec=RunSpec("create")), "bob")
    await until((root / "looking").exists)
    (root / "seen").touch()
    assert (await ended(store, look)).state is TaskState.SUCCEEDED
    assert (await ended(store, plan)).state is TaskState.SUCCEEDED
    with pytest.raises(ConflictError, match="is changing demo"):
        await registry.edit("demo", spec(root, hosts=3), by="bob")
    with pytest.raises(ConflictError, match="is changing demo"):
        await registry.remove("demo")
    await registry.put_secret("demo", "login", Secret("new"), by="bob")
    (root / "go").touch()
    assert (await ended(store, first)).state is TaskState.SUCCEEDED
    with pytest.raises(ConflictError, match="still exists on its hosts"):
        await registry.remove("demo")


async def test_so_many_at_once_and_everybody_in_turn(
    service: TaskService, store: Store, registry: Registry, root: Path
) -> None:
    for number in range(7):
        (root / str(number)).mkdir()
        text = spec(root / str(number), name=f"c{number}")
        await registry.register(text, by="ann", secrets={"login": Secret("hush")})
    tasks = [
        await service.submit(replace(CREATE, cluster=f"c{number}"), "bob" if number == 6 else "ann")
        for number in range(7)
    ]
    assert (service.running, service.waiting) == (2, 5)
    (root / "0" / "go").touch()
    await ended(store, tasks[0])
    await until((root / "6" / "waiting").exists)
    assert service.running == 2
    assert (await store.tasks.get(tasks[2].id)).state is TaskState.QUEUED, "bob came later, and has waited longer"
    cancelled = await service.cancel(tasks[5].id)
    assert cancelled.state is TaskState.CANCELLED
    for number in range(7):
        (root / str(number) / "go").touch()
    states = [(await ended(store, task)).state for task in tasks]
    assert states == [*[TaskState.SUCCEEDED] * 5, TaskState.CANCELLED, TaskState.SUCCEEDED]


async def test_a_task_that_failed_is_resumed_and_does_nothing_twice(
    service: TaskService, store: Store, demo: str, root: Path
) -> None:
    (root / "go").touch()
    (root / "broken").touch()
    failed = await ended(store, await service.submit(CREATE, "ann"))
    assert failed.state is TaskState.FAILED
    assert (await store.clusters.get("demo")).state == "incomplete"
    (result,) = await store.runs.host_results(failed.n, states=["failed"])
    assert result.node == "work.do.wait"
    assert "it is broken" in result.error
    (log,) = await store.runs.step_logs(failed.n, states=["failed"])
    assert "hush" not in log.stderr, "secrets are masked before anything is kept"
    (root / "broken").unlink()
    task = await service.resume(failed.id, "bob")
    assert (task.id, task.resumed, task.actor) == (failed.id, 1, "bob")
    done = await ended(store, failed)
    assert done.state is TaskState.SUCCEEDED
    assert done.seq > failed.seq
    assert (root / "times").read_text() == "x\n"
    kinds = [event.kind for event in await store.runs.events(done.n)]
    assert kinds.count("run.started") == kinds.count("run.resumed") == 1
    with pytest.raises(ConflictError, match="is succeeded"):
        await service.resume(done.id, "bob")


async def test_cancelling_once_finishes_what_runs_and_twice_stops_now(
    service: TaskService, store: Store, demo: str, root: Path
) -> None:
    task = await service.submit(CREATE, "ann")
    await until((root / "waiting").exists)
    await service.cancel(task.id)
    await asyncio.sleep(0.2)
    (root / "go").touch()
    gentle = await ended(store, task)
    assert gentle.state is TaskState.CANCELLED
    assert gentle.tally == {"succeeded": 2, "cancelled": 1}
    with pytest.raises(ConflictError, match="has ended"):
        await service.cancel(task.id)
    for name in ("go", "gone", "waiting"):
        (root / name).unlink()
    again = await service.submit(CREATE, "ann")
    await until((root / "waiting").exists)
    await service.cancel(again.id)
    await asyncio.sleep(0.2)
    await service.cancel(again.id)
    assert (await ended(store, again)).state is TaskState.INTERRUPTED


async def test_a_worker_that_dies_leaves_an_interrupted_task_that_can_be_resumed(
    service: TaskService, store: Store, demo: str, root: Path
) -> None:
    task = await service.submit(CREATE, "ann")
    await until((root / "waiting").exists)
    pid = service.run_files(task).process()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    died = await ended(store, task)
    assert died.state is TaskState.INTERRUPTED
    assert "ended by signal 9" in died.error["message"]
    (root / "go").touch()
    await service.resume(task.id, "ann")
    assert (await ended(store, task)).state is TaskState.SUCCEEDED
    assert (root / "times").read_text() == "x\n"


async def test_a_server_that_ends_interrupts_its_tasks_and_the_next_one_resumes_them(
    store: Store, places: Places, options: TaskOptions, demo: str, root: Path
) -> None:
    first = TaskService(store, places, options)
    await first.start()
    task = await first.submit(CREATE, "ann")
    await until((root / "waiting").exists)
    await first.stop()
    assert (await store.tasks.get(task.id)).state is TaskState.INTERRUPTED
    second = TaskService(store, places, options)
    await second.start()
    (root / "go").touch()
    await second.resume(task.id, "ann")
    assert (await ended(store, task)).state is TaskState.SUCCEEDED
    await second.stop()


async def test_what_waits_when_a_server_ends_runs_under_the_next(
    store: Store, places: Places, options: TaskOptions, demo: str, root: Path
) -> None:
    first = TaskService(store, places, replace(options, parallel=0))
    await first.start()
    task = await first.submit(CREATE, "ann")
    await first.stop()
    assert (await store.tasks.get(task.id)).state is TaskState.QUEUED
    (root / "go").touch()
    second = TaskService(store, places, options)
    await second.start()
    assert (await ended(store, task)).state is TaskState.SUCCEEDED
    await second.stop()


async def test_runs_of_the_command_line_and_of_a_lost_store_are_taken_in(
    service: TaskService, store: Store, places: Places, options: TaskOptions, demo: str, root: Path, tmp_path: Path
) -> None:
    (root / "go").touch()
    task = await ended(store, await service.submit(CREATE, "ann"))
    await service.stop()
    fresh = await Store.open(f"sqlite:///{tmp_path / 'fresh.db'}", tmp_path / "other key")
    rebuilt = TaskService(fresh, places, options)
    await rebuilt.start()
    again = await fresh.tasks.get(task.id)
    assert (again.state, again.seq, again.tally, again.units) == (task.state, task.seq, task.tally, task.units)
    assert [event.data for event in await fresh.runs.events(again.n)] == [
        event.data for event in await store.runs.events(task.n)
    ]
    await rebuilt.stop()
    await fresh.close()


async def test_a_plan_is_kept_and_carried_out_exactly_or_refused(
    service: TaskService, store: Store, registry: Registry, demo: str, root: Path
) -> None:
    planning = Wanted(cluster="demo", kind=Kind.PLAN, spec=RunSpec("create"))
    planned = await ended(store, await service.submit(planning, "ann"))
    assert planned.plan == planned.id
    plan = await store.plans.get(planned.plan)
    assert (plan.pipeline, plan.nodes, plan.changes) == ("create", 3, True)
    (root / "go").touch()
    apply = Wanted(cluster="demo", kind=Kind.APPLY, spec=RunSpec("create"), plan=plan.id)
    done = await ended(store, await service.submit(apply, "ann"))
    assert done.state is TaskState.SUCCEEDED
    assert done.graph == plan.digest
    await registry.edit("demo", spec(root, hosts=3), by="bob")
    refused = await ended(store, await service.submit(apply, "ann"))
    assert refused.state is TaskState.FAILED
    assert "this plan no longer fits" in refused.error["message"]
    with pytest.raises(NotFoundError, match="there is no plan"):
        await service.submit(replace(apply, plan="nope"), "ann")


async def test_facts_are_gathered_and_kept(service: TaskService, store: Store, demo: str) -> None:
    done = await ended(store, await service.submit(Wanted(cluster="demo", kind=Kind.FACTS), "ann"))
    assert done.state is TaskState.SUCCEEDED
    found = await store.clusters.facts("demo")
    assert [each.host for each in found] == ["n1", "n2"]
    assert found[0].facts["os"]


async def test_what_cannot_be_done_is_refused_before_it_is_queued(
    service: TaskService, store: Store, places: Places, demo: str, root: Path
) -> None:
    with pytest.raises(NotFoundError, match="there is no cluster 'nobody'"):
        await service.submit(replace(CREATE, cluster="nobody"), "ann")
    with pytest.raises(UsageError, match="there is no pipeline"):
        await service.submit(replace(CREATE, spec=RunSpec("creaet")), "ann")
    with pytest.raises(UsageError, match="create has no option 'force'"):
        await service.submit(replace(CREATE, spec=RunSpec("create", {"force": True})), "ann")
    await store.vault.remove_secret("demo", "login")
    with pytest.raises(ConfigError, match="demo names what was not uploaded: secret login"):
        await service.submit(CREATE, "ann")
    assert await store.tasks.page() == []


async def test_what_another_version_queued_is_refused(service: TaskService, store: Store, demo: str) -> None:
    old = Task(
        id="20250101-000000-abcd", cluster="demo", action="create", pipeline="create", request={"only": ["etcd"]}
    )
    await store.tasks.add(replace(old, state=TaskState.FAILED), alone=False)
    failed = await ended(store, await service.resume(old.id, "ann"))
    assert failed.state is TaskState.FAILED
    assert "has the format none, and this version of kubexm reads format 1" in failed.error["message"]
    assert "make the request again" in failed.error["hint"]


async def test_a_task_that_cannot_begin_says_why(service: TaskService, store: Store, demo: str, root: Path) -> None:
    task = await service.submit(replace(CREATE, spec=RunSpec("create", only=("nothing.of.this",))), "ann")
    failed = await ended(store, task)
    assert failed.state is TaskState.FAILED
    assert failed.error["kind"] == "UsageError"
    assert "selects nothing in this plan" in failed.error["message"]
    assert failed.error["hint"]
    (root / "go").touch()
    await service.resume(task.id, "ann")
    assert (await ended(store, task)).state is TaskState.FAILED, "what was asked for is what is tried again"


async def test_a_run_goes_on_while_the_store_is_away(
    service: TaskService, store: Store, demo: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubexm.errors import StoreError
    from kubexm.store.database import Database

    task = await service.submit(CREATE, "ann")
    await until((root / "waiting").exists)
    away = True
    whole = Database.write

    def sometimes(database: Database) -> object:
        if away:
            raise StoreError("the database is away")
        return whole(database)

    monkeypatch.setattr(Database, "write", sometimes)
    (root / "go").touch()
    await until((root / "last").exists)
    await until(lambda: service.run_files(task).process() is None)
    away = False
    done = await ended(store, task)
    assert done.state is TaskState.SUCCEEDED
    assert [event.seq for event in await store.runs.events(done.n)] == list(range(1, done.seq + 1))
