"""Tasks: what is asked for runs in the background, so many at a time, one writer for each cluster.

Every task ends in exactly one state, whatever happens to the server: what it was doing is in the journals, and a server
that starts finds out there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubexm.errors import ConflictError, JournalError, StoreError
from kubexm.runtime import WorkDir, new_run_id
from kubexm.service.carrying import Carrier
from kubexm.service.follow import Followers
from kubexm.service.keeper import Keeper
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.retention import Keep, keep_tidy
from kubexm.service.run_files import RunFiles
from kubexm.service.turns import next_task
from kubexm.service.wanted import Kind, Wanted, makes_run
from kubexm.service.workers import WORKER
from kubexm.store.store import Store
from kubexm.store.tasks import Task, TaskState

__all__ = ["TaskOptions", "TaskService"]

_RESUMABLE = frozenset({TaskState.PARTIAL, TaskState.FAILED, TaskState.CANCELLED, TaskState.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What holds for all tasks of a server."""

    parallel: int = 4
    """How many run at once."""
    worker: tuple[str, ...] = WORKER
    """The command that starts a worker."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("kubexm"))
    keep: Keep = field(default_factory=Keep)
    stop_within: float = 15.0
    """How long running tasks have to stop when the server is."""


class TaskService:
    """Takes, queues, starts, stops and resumes tasks. Between `start` and `stop`."""

    def __init__(
        self, store: Store, places: Places, options: TaskOptions | None = None, registry: Registry | None = None
    ) -> None:
        self._store = store
        self._places = places
        self._options = options or TaskOptions()
        self._logger = self._options.logger
        self.keeper = Keeper(store, self._logger)
        self.followers = Followers()
        self._carrier = Carrier(
            store, places, self.keeper, self._options.worker, self._logger, changed=self.followers.wake
        )
        self._registry = registry or Registry(store, places)
        self._queue: list[Task] = []
        self._running: dict[str, Task] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        self._served: dict[str, int] = {}
        self._turn = 0
        self._stopping = False
        self._tidying: asyncio.Task[None] | None = None

    # The server's life

    async def start(self) -> None:
        """Finds out how the tasks of an earlier server ended, queues what waited, and begins."""
        self._carrier.staging.clear()
        await self._recover()
        self._queue = await self._store.tasks.in_states({TaskState.QUEUED})
        self.keeper.start()
        self._tidying = asyncio.create_task(
            keep_tidy(self._store, lambda task: self.run_files(task).path, self._options.keep, self._logger)
        )
        self._dispatch()

    async def stop(self) -> None:
        """Stops what runs: those tasks are INTERRUPTED, and what waits stays queued."""
        self._stopping = True
        self._carrier.stop_all()
        if self._work:
            await asyncio.wait(self._work.values(), timeout=self._options.stop_within)
        if self._work:
            self._carrier.kill_all()
            await asyncio.wait(self._work.values(), timeout=self._options.stop_within)
        for work in list(self._work.values()):  # the database is away: the next server finds out how they ended
            work.cancel()
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self.keeper.stop()
        await self._registry.close()

    # What can be asked

    async def submit(self, wanted: Wanted, actor: str) -> Task:
        """Queues it; ConflictError names the task that is changing the cluster if this one would, too."""
        cluster = await self._store.clusters.get(wanted.cluster)
        planned = True
        pipeline, spec_version = wanted.pipeline, cluster.version
        if wanted.kind is Kind.APPLY:
            plan = await self._store.plans.get(wanted.plan)
            planned, pipeline = plan.changes, plan.pipeline
        changes = wanted.changes(planned)
        await self._registry.refuse_missing(wanted.cluster)
        task = Task(
            id=await self._new_id(),
            cluster=wanted.cluster,
            action=wanted.action,
            pipeline=pipeline,
            changes=changes,
            dry_run=wanted.dry_run,
            request=wanted.to_request(),
            spec_version=spec_version,
            actor=actor,
            created=time.time(),
            plan=wanted.plan,
        )
        other = await self._store.tasks.add(task, alone=changes)
        if other is not None:
            raise _taken(other)
        task = await self._store.tasks.get(task.id)
        self._queue.append(task)
        self._dispatch()
        return task

    async def cancel(self, name: str) -> Task:
        """Asks a task to stop: what waits ends at once, what runs finishes what it is at; asked again, it stops."""
        task = await self._store.tasks.get(name)
        if task.state is TaskState.QUEUED:
            self._queue = [each for each in self._queue if each.id != name]
            ended = {"state": TaskState.CANCELLED, "ended": time.time(), "kept": True}
            if await self._store.tasks.change(name, only_if={TaskState.QUEUED}, **ended):
                self.followers.wake(name)
                return await self._store.tasks.get(name)
            task = await self._store.tasks.get(name)
        if not task.active:
            raise ConflictError(f"task {name} has ended: it is {task.state}", hint="only what waits or runs can stop")
        self._carrier.stop(name)
        return task

    async def resume(self, name: str, actor: str) -> Task:
        """Goes on with a task that failed, was stopped or was interrupted; it is the same task, and the same run."""
        task = await self._store.tasks.get(name)
        if task.state not in _RESUMABLE:
            raise ConflictError(f"task {name} is {task.state}", hint="there is nothing to resume", task=task.id)
        if task.dry_run or not makes_run(task.action):
            raise ConflictError(
                f"task {name} ({'a dry run' if task.dry_run else task.action}) changed nothing",
                hint="there is nothing to resume; ask for it again",
            )
        await self._store.clusters.get(task.cluster)
        await self._registry.refuse_missing(task.cluster)
        other = await self._store.tasks.reopen(task, actor)
        if other is not None:
            raise _taken(other)
        task = await self._store.tasks.get(name)
        self._queue.append(task)
        self._dispatch()
        return task

    def run_files(self, task: Task) -> RunFiles:
        """Where the task's run is, or would be, on disk."""
        return RunFiles(WorkDir.of(task.cluster, str(self._places.work), self._places.data).run(task.id))

    def is_active(self, name: str) -> bool:
        """True while a task waits or runs; once it is not, all of it is in the store."""
        return name in self._running or any(task.id == name for task in self._queue)

    def hosts(self, name: str) -> Mapping[str, str]:
        """How far each host of a running task is: connecting, connected, ready (its facts are known) or failed."""
        return self._carrier.hosts(name)

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many tasks run."""
        return len(self._running)

    # Within

    async def _new_id(self) -> str:
        while True:
            name = new_run_id()
            if not await self._store.tasks.known([name]):
                return name

    def _dispatch(self) -> None:
        while not self._stopping and len(self._running) < self._options.parallel:
            task = next_task(self._queue, self._running.values(), self._served)
            if task is None:
                return
            self._queue.remove(task)
            self._turn += 1
            self._served[task.actor] = self._turn
            self._running[task.id] = task
            work = asyncio.create_task(self._carry_out(task))
            self._work[task.id] = work

    async def _carry_out(self, task: Task) -> None:
        try:
            await self._carrier.carry_out(task, self.run_files(task))
        except Exception:  # a bug here must not stop the queue
            self._logger.exception("task %s could not be carried out", task.id)
        finally:
            self._running.pop(task.id, None)
            self._work.pop(task.id, None)
            self.followers.wake(task.id)
            self._dispatch()

    async def _recover(self) -> None:
        """Tasks that were running when a server died, and journals that are not wholly in the store."""
        for task in await self._store.tasks.in_states({TaskState.RUNNING}):
            await self._carrier.settle_orphan(task, self.run_files(task))
        for task in await self._store.tasks.not_kept():
            if task.active:
                continue
            self.keeper.watch(task, self.run_files(task).path)
            await self.keeper.finish(task)
            await self._store.tasks.change(task.id, kept=True)
        await self._import()

    async def _import(self) -> None:
        """Runs the command line made in this work directory become tasks, too; so do all if the store was lost."""
        found: dict[str, Path] = {path.name: path for path in self._places.work.glob("*/runs/*") if path.is_dir()}
        new = set(found) - await self._store.tasks.known(found)
        for name in sorted(new):
            try:
                await self._import_one(RunFiles(found[name]))
            except (JournalError, StoreError) as error:
                self._logger.warning("run %s is not taken into the store: %s", name, error.message)

    async def _import_one(self, files: RunFiles) -> None:
        info, record = files.info(), files.record()
        if info.status == "running":
            return
        task = Task(
            id=info.id,
            cluster=info.cluster,
            action=info.pipeline,
            pipeline=info.pipeline,
            state=TaskState(info.status),
            changes=record.changes and not info.dry_run,
            dry_run=info.dry_run,
            request={"spec": record.spec.to_json()},
            actor="command line",
            created=info.started,
            started=info.started,
            ended=info.ended or info.started,
        )
        await self._store.tasks.add(task, alone=False)
        task = await self._store.tasks.get(task.id)
        self.keeper.watch(task, files.path)
        await self.keeper.finish(task)
        await self._store.tasks.change(task.id, kept=True)


def _taken(other: Task) -> ConflictError:
    return ConflictError(
        f"task {other.id} ({other.action}, {other.state}) is changing {other.cluster}",
        hint="wait for it to end, or cancel it",
        task=other.id,
    )
