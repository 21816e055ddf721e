"""Tasks: what was asked of the service, by whom, and how far it came. Must not know how a task is carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import RowMapping, Select, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from kubexm.errors import NotFoundError
from kubexm.store.database import Database
from kubexm.store.tables import events, graphs, host_results, node_results, plans, step_logs, tasks
from kubexm.store.texts import from_json, to_json

__all__ = ["ACTIVE", "Task", "TaskState", "Tasks"]


class TaskState(StrEnum):
    """The life of a task."""

    QUEUED = "queued"
    """Waits for its turn."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """Done, except for hosts lost within their budget."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Stopped midway, or its server died."""


ACTIVE = frozenset({TaskState.QUEUED, TaskState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing that was asked for. Its id is also the id of the run it makes, if it makes one."""

    id: str
    cluster: str
    action: str
    pipeline: str = ""
    state: TaskState = TaskState.QUEUED
    changes: bool = False
    """True if it may change the cluster: one such task at a time."""
    dry_run: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    spec_version: int = 0
    actor: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    error: Mapping[str, Any] = field(default_factory=dict)
    """Why it could not even begin, or ended badly, as message and hint."""
    resumed: int = 0
    seq: int = 0
    """The last event of its journal that is in the store."""
    units: int = 0
    tally: Mapping[str, int] = field(default_factory=dict)
    """How many (node, host) are in each final state so far."""
    graph: str = ""
    plan: str = ""
    """The plan it made, or carries out."""
    bytes: int = 0
    kept: bool = False
    """True once all of its journal is in the store."""
    n: int = 0

    @property
    def active(self) -> bool:
        """True while it waits or runs."""
        return self.state in ACTIVE


class Tasks:
    """The table of tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, task: Task, *, alone: bool) -> Task | None:
        """Adds it. With `alone`, not if another one that changes the same cluster is active: that one is returned."""
        async with self._database.write() as connection:
            if not self._database.is_sqlite:  # two requests at once must not both find the cluster free
                await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(task.cluster))))
            if alone and (other := await _writer(connection, task.cluster)) is not None:
                return other
            await connection.execute(insert(tasks).values(**_values(task)))
            return None

    async def get(self, task: str) -> Task:
        """The task of this id."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(tasks).where(tasks.c.id == task))).mappings().first()
        if row is None:
            raise NotFoundError(f"there is no task {task!r}", hint="GET /api/v1/tasks lists them")
        return _task(row)

    async def known(self, ids: Collection[str]) -> set[str]:
        """Those of the ids that there are tasks of."""
        found: set[str] = set()
        wanted = sorted(ids)
        async with self._database.read() as connection:
            for start in range(0, len(wanted), 500):
                query = select(tasks.c.id).where(tasks.c.id.in_(wanted[start : start + 500]))
                found.update((await connection.execute(query)).scalars())
        return found

    async def page(
        self,
        *,
        before: int | None = None,
        limit: int = 50,
        clusters: Collection[str] | None = None,
        states: Collection[str] = (),
        actions: Collection[str] = (),
        actor: str = "",
    ) -> list[Task]:
        """Tasks, the latest first, older than `before`; only of these clusters, unless that is None."""
        query = select(tasks).order_by(tasks.c.n.desc()).limit(limit)
        if before is not None:
            query = query.where(tasks.c.n < before)
        if clusters is not None:
            query = query.where(tasks.c.cluster.in_(sorted(clusters)))
        if states:
            query = query.where(tasks.c.state.in_(sorted(states)))
        if actions:
            query = query.where(tasks.c.action.in_(sorted(actions)))
        if actor:
            query = query.where(tasks.c.actor == actor)
        return await self._all(query)

    async def in_states(self, states: Collection[TaskState]) -> list[Task]:
        """Tasks in one of these states, the oldest first."""
        return await self._all(select(tasks).where(tasks.c.state.in_(sorted(states))).order_by(tasks.c.n))

    async def not_kept(self) -> list[Task]:
        """Tasks whose journal is not yet wholly in the store, the oldest first."""
        return await self._all(select(tasks).where(tasks.c.kept.is_(False)).order_by(tasks.c.n))

    async def writer(self, cluster: str) -> Task | None:
        """The active task that may change this cluster."""
        async with self._database.read() as connection:
            return await _writer(connection, cluster)

    async def latest(self, clusters: Sequence[str]) -> dict[str, Task]:
        """The latest task of each of these clusters."""
        last = select(func.max(tasks.c.n)).where(tasks.c.cluster.in_(sorted(clusters))).group_by(tasks.c.cluster)
        return {task.cluster: task for task in await self._all(select(tasks).where(tasks.c.n.in_(last)))}

    async def change(self, task: str, *, only_if: Collection[TaskState] | None = None, **values: Any) -> bool:
        """Sets these columns; with `only_if`, not if it is in another state by now. False if nothing was changed."""
        statement = update(tasks).where(tasks.c.id == task).values(**_columns(values))
        if only_if is not None:
            statement = statement.where(tasks.c.state.in_(sorted(only_if)))
        async with self._database.write() as connection:
            return bool((await connection.execute(statement)).rowcount)

    async def reopen(self, task: Task, actor: str) -> Task | None:
        """Queues an ended task again, unless another one that changes its cluster is active: that one is returned."""
        async with self._database.write() as connection:
            if not self._database.is_sqlite:
                await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(task.cluster))))
            if task.changes and (other := await _writer(connection, task.cluster)) is not None:
                return other
            values = {
                "state": TaskState.QUEUED,
                "ended": None,
                "error": "{}",
                "resumed": tasks.c.resumed + 1,
                "actor": actor,
                "kept": False,
            }
            await connection.execute(update(tasks).where(tasks.c.id == task.id).values(**values))
            return None

    async def count(self) -> dict[str, int]:
        """How many tasks are in each state."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(tasks.c.state, func.count()).group_by(tasks.c.state))
            return {row.state: row[1] for row in rows}

    # Keeping only so much

    async def expired(self, before: float, most_bytes: int) -> list[Task]:
        """Ended tasks from before that time, and then as many of the oldest as are beyond so many bytes."""
        over = tasks.c.state.not_in(sorted(ACTIVE))
        old = await self._all(select(tasks).where(over, tasks.c.ended < before).order_by(tasks.c.n))
        async with self._database.read() as connection:
            total = int(await connection.scalar(select(func.coalesce(func.sum(tasks.c.bytes), 0))) or 0)
        excess = total - sum(task.bytes for task in old) - most_bytes
        taken = {task.n for task in old}
        after = 0
        while excess > 0:
            query = select(tasks).where(over, tasks.c.n > after, tasks.c.bytes > 0).order_by(tasks.c.n).limit(500)
            found = await self._all(query)
            if not found:
                break
            for task in found:
                after = task.n
                if excess > 0 and task.n not in taken:
                    old.append(task)
                    excess -= task.bytes
        return old

    async def forget(self, task: Task) -> None:
        """Removes a task and all that was kept of it."""
        async with self._database.write() as connection:
            for table in (events, step_logs, host_results, node_results):
                await connection.execute(delete(table).where(table.c.task == task.n))
            await connection.execute(delete(tasks).where(tasks.c.n == task.n))
            if task.action == "plan":
                used = select(tasks.c.n).where(tasks.c.plan == task.plan)
                await connection.execute(delete(plans).where(plans.c.id == task.plan, ~used.exists()))
            if task.graph:
                used = select(tasks.c.n).where(tasks.c.graph == task.graph)
                await connection.execute(delete(graphs).where(graphs.c.digest == task.graph, ~used.exists()))

    async def _all(self, query: Select[Any]) -> list[Task]:
        async with self._database.read() as connection:
            return [_task(row) for row in (await connection.execute(query)).mappings()]


async def _writer(connection: AsyncConnection, cluster: str) -> Task | None:
    query = select(tasks).where(tasks.c.cluster == cluster, tasks.c.state.in_(sorted(ACTIVE)), tasks.c.changes)
    row = (await connection.execute(query.limit(1))).mappings().first()
    return None if row is None else _task(row)


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    texts = {"request", "error", "tally"}
    return {name: to_json(dict(value)) if name in texts else value for name, value in values.items()}


def _values(task: Task) -> dict[str, Any]:
    return _columns({name: getattr(task, name) for name in Task.__slots__ if name != "n"})


def _task(row: RowMapping) -> Task:
    values = dict(row)
    for name in ("request", "error", "tally"):
        values[name] = from_json(values[name])
    return Task(**{**values, "state": TaskState(values["state"])})
