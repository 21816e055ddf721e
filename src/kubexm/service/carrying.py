"""Carries out one task: lays out its files, starts its worker, keeps its journal, and writes down how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kubexm.assets.cache import default_cache
from kubexm.errors import JournalError, KubexmError, StoreError
from kubexm.pipeline import PIPELINES, declared
from kubexm.plan import SavedPlan
from kubexm.service.jobs import Job, Outcome
from kubexm.service.keeper import Keeper
from kubexm.service.places import Places
from kubexm.service.run_files import RunFiles
from kubexm.service.staging import Staging
from kubexm.service.troubles import trouble
from kubexm.service.wanted import Kind, Wanted, makes_run
from kubexm.service.workers import Worker, worker_environment
from kubexm.store.clusters import FactsRecord
from kubexm.store.plans import PlanRecord
from kubexm.store.store import Store
from kubexm.store.tasks import Task, TaskState

__all__ = ["Carrier"]

T = TypeVar("T")
_SERVER_ENDED = {
    "kind": "Interrupted",
    "message": "the server ended while this task ran",
    "hint": "resuming the task goes on where it stopped",
}
_GONE_WITHIN = 30.0  # seconds a worker whose server died has to end by itself


@dataclass(slots=True)
class _Made:
    """What a task leaves besides its run."""

    state: TaskState
    error: Mapping[str, Any]
    plan: str = ""


class Carrier:
    """Does the work of TaskService for one task at a time of its choosing."""

    def __init__(
        self,
        store: Store,
        places: Places,
        keeper: Keeper,
        command: tuple[str, ...],
        logger: logging.Logger,
        *,
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`changed` is called with the id of a task whose state is another one."""
        self._changed = changed
        self._store = store
        self._places = places
        self._keeper = keeper
        self._command = command
        self._logger = logger
        self.staging = Staging(places, store)
        self._workers: dict[str, Worker | None] = {}
        self._stop_asked: set[str] = set()
        self._ending = False

    # Stopping

    def stop(self, task: str) -> None:
        """Asks a running task to stop; again: now."""
        worker = self._workers.get(task)
        if worker is not None:
            worker.stop()
        else:
            self._stop_asked.add(task)

    def hosts(self, task: str) -> Mapping[str, str]:
        """How far the hosts of a running task are while they are connected."""
        worker = self._workers.get(task)
        return {} if worker is None else dict(worker.hosts)

    def stop_all(self) -> None:
        """Stops everything now: the server ends."""
        self._ending = True
        for name, worker in self._workers.items():
            if worker is None:
                self._stop_asked.add(name)
            else:
                worker.stop(now=True)

    def kill_all(self) -> None:
        """Ends everything, whatever it does."""
        for worker in self._workers.values():
            if worker is not None:
                worker.kill()

    # Carrying out

    async def carry_out(self, task: Task, files: RunFiles) -> None:
        """From QUEUED to its end."""
        self._workers[task.id] = None
        try:
            values = {"state": TaskState.RUNNING, "started": task.started or time.time()}
            if not await self._surely(lambda: self._store.tasks.change(task.id, only_if={TaskState.QUEUED}, **values)):
                return  # it was cancelled while it waited
            self._changed(task.id)
            try:
                made = await self._work(task, files)
            except Exception as error:
                if not isinstance(error, KubexmError):
                    self._logger.exception("task %s failed", task.id)
                made = _Made(TaskState.FAILED, trouble(error))
            if self._ending and made.state is TaskState.CANCELLED:
                made = _Made(TaskState.INTERRUPTED, _SERVER_ENDED)
            await self._end(task, files, made)
        finally:
            self._workers.pop(task.id, None)
            self._stop_asked.discard(task.id)

    async def _work(self, task: Task, files: RunFiles) -> _Made:
        wanted = Wanted.of(task)
        with tempfile.TemporaryDirectory(prefix="kubexm-task-") as scratch:
            async with self.staging.laid_out(task.cluster) as file:
                job = await self._job(task, wanted, files, file, Path(scratch))
                if task.id in self._stop_asked:
                    return _Made(TaskState.CANCELLED, {})
                environment = worker_environment(self._places.home(task.cluster), default_cache())
                worker = await Worker.start(self._command, job, environment)
                self._workers[task.id] = worker
                if task.id in self._stop_asked:
                    worker.stop()
                if makes_run(task.action):
                    self._keeper.watch(task, files.path)
                outcome = await worker.outcome()
            made = _made(files, outcome, stopped=worker.asked_to_stop, runs=makes_run(task.action))
            if made.state in (TaskState.SUCCEEDED, TaskState.PARTIAL):
                if wanted.kind is Kind.PLAN:
                    made.plan = await self._keep_plan(task, Path(job.out))
                elif wanted.kind is Kind.FACTS:
                    await self._keep_facts(task, Path(job.out))
        return made

    async def _job(self, task: Task, wanted: Wanted, files: RunFiles, file: Path, scratch: Path) -> Job:
        begun = (files.path / "run.json").exists()
        plan = ""
        if wanted.kind is Kind.APPLY and not begun:
            plan = str(scratch / "plan.kxp")
            _write(Path(plan), (await self._store.plans.get(wanted.plan)).body)
        return Job(
            task=task.id,
            kind="resume" if makes_run(task.action) and begun else wanted.kind.value,
            file=str(file),
            work_dir=str(self._places.work),
            spec=wanted.spec,
            offline=wanted.offline,
            plan=plan,
            out=str(scratch / "out"),
            secrets=await self._store.vault.open_secrets(task.cluster),
        )

    async def _keep_plan(self, task: Task, path: Path) -> str:
        plan = await asyncio.to_thread(SavedPlan.load, path)
        record = PlanRecord(
            id=task.id,
            cluster=task.cluster,
            pipeline=plan.pipeline,
            spec_version=task.spec_version,
            created=time.time(),
            created_by=task.actor,
            offline=plan.offline,
            changes=plan.changes,
            nodes=len(plan.graph.nodes),
            units=plan.graph.units,
            digest=plan.graph.digest,
            body=_read(path),
        )
        await self._surely(lambda: self._store.plans.add(record))
        return record.id

    async def _keep_facts(self, task: Task, path: Path) -> None:
        data, now = json.loads(_read(path)), time.time()
        found = [FactsRecord(host=name, time=now, facts=each, error="") for name, each in data["facts"].items()]
        found += [
            FactsRecord(host=name, time=now, facts={}, error=each["message"])
            for name, each in data["unreached"].items()
        ]
        await self._surely(lambda: self._store.clusters.put_facts(task.cluster, found))

    # Ends

    async def _end(self, task: Task, files: RunFiles, made: _Made) -> None:
        """Writes down how it ended, once all of its journal is in the store; the state last, since it ends the task."""
        if (files.path / "journal").exists():
            self._keeper.watch(task, files.path)
            await self._keeper.finish(task)
        values: dict[str, Any] = {"state": made.state, "ended": time.time(), "error": made.error, "kept": True}
        if made.plan:
            values["plan"] = made.plan
        if task.changes and (state := _cluster_state(task.pipeline, made.state)):
            await self._surely(lambda: self._store.clusters.set_state(task.cluster, state))
        detail = {"cluster": task.cluster, "action": task.action}
        await self._surely(
            lambda: self._store.audit.add(
                actor=task.actor, action="task ended", target=task.id, outcome=made.state.value, detail=detail
            )
        )
        await self._surely(lambda: self._store.tasks.change(task.id, **values))
        self._changed(task.id)

    async def settle_orphan(self, task: Task, files: RunFiles) -> None:
        """A task whose server died while it ran: ends what may be left of its worker, and finds out how far it came."""
        pid = files.process() if files.path.exists() else None
        deadline = time.monotonic() + _GONE_WITHIN
        while pid is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            pid = files.process()
        if pid is not None:
            self._logger.warning("task %s: its worker (process %d) did not end, and is ended", task.id, pid)
            os.kill(pid, signal.SIGKILL)
        outcome = Outcome(error=_SERVER_ENDED)
        await self._end(task, files, _made(files, outcome, stopped=False, runs=makes_run(task.action)))

    async def _surely(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does it, however long the database stays away: what happened must be written down."""
        delay = 0.1
        while True:
            try:
                return await work()
            except StoreError as error:
                self._logger.warning("waiting for the store: %s", error.message)
                await asyncio.sleep(delay)
                delay = min(2 * delay, 5.0)


def _made(files: RunFiles, outcome: Outcome, *, stopped: bool, runs: bool) -> _Made:
    """The state of a task: as its journal says if there is one, else as its worker told."""
    if runs and (files.path / "journal").exists():
        try:
            status = files.info().status
        except JournalError as error:
            return _Made(TaskState.FAILED, trouble(error))
        if status != "running":
            return _Made(TaskState(status), outcome.error)
    if outcome.status:
        return _Made(TaskState(outcome.status), {})
    if stopped:
        return _Made(TaskState.CANCELLED, {})
    died = outcome.error.get("kind") in ("WorkerDied", "Interrupted")
    return _Made(TaskState.INTERRUPTED if died else TaskState.FAILED, outcome.error)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _cluster_state(pipeline: str, state: TaskState) -> str:
    """What is known of a cluster after a run that changes it, as its pipeline declares; empty if nothing new is."""
    after = declared(pipeline).results_in if pipeline in PIPELINES else ""
    if not after:
        return ""
    ends = {TaskState.SUCCEEDED: after, **({TaskState.PARTIAL: "partial"} if after == "up" else {})}
    return ends.get(state, "incomplete")
