"""What happened in a task's run: events, results and logs. Fed by a tail of the journal, read by whoever asks."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Insert, Row, Select, Table, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from kubexm.errors import NotFoundError
from kubexm.events import Event, EventKind
from kubexm.store.database import Database
from kubexm.store.run_rows import Rows, Tally
from kubexm.store.step_log import StepLog
from kubexm.store.tables import events, graphs, host_results, node_results, step_logs, tasks
from kubexm.store.texts import from_json, to_json

__all__ = ["NOT_WELL", "HostRecord", "KeptEvent", "NodeRecord", "Runs"]

NOT_WELL = ("failed", "blocked", "cancelled", "interrupted")
"""Final states that a resume gives another try."""


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An event as the store has it: the data is JSON already."""

    seq: int
    time: float
    kind: str
    node: str
    host: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """How a node stands, over its hosts."""

    node: str
    state: str
    tally: dict[str, int]
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """How one (node, host) ended, the last time it did."""

    node: str
    host: str
    seq: int
    state: str
    started: float | None
    ended: float | None
    attempts: int
    error: str
    hint: str
    root_node: str
    root_host: str
    more: dict[str, Any] = field(default_factory=dict)


class Runs:
    """Events, results and logs of tasks, by the number of the task."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Feeding

    async def tally(self, task: int) -> Tally:
        """How the task stands by what is in the store: where a tail goes on from."""
        tally = Tally()
        async with self._database.read() as connection:
            row = (await connection.execute(select(tasks.c.units, tasks.c.graph).where(tasks.c.n == task))).one()
            tally.units, tally.graph = row
            columns = host_results.c.node, host_results.c.host, host_results.c.state
            times = host_results.c.started, host_results.c.ended
            query = select(*columns, *times).where(host_results.c.task == task)
            for node, host, state, started, ended in await connection.execute(query):
                tally.count(node, host, state, started, ended)
        return tally

    async def last(self, task: int) -> tuple[int, float]:
        """Sequence number and time of the last event that is in the store; (0, 0.0) if there is none."""
        query = select(events.c.seq, events.c.time).where(events.c.task == task).order_by(events.c.seq.desc()).limit(1)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).first()
        return (0, 0.0) if row is None else (row[0], row[1])

    async def take(self, task: int, batch: Sequence[Event], tally: Tally) -> bool:
        """Keeps these events, which follow the last one kept, in one transaction; True if the run ended with them."""
        rows = Rows.of(task, batch, tally)
        async with self._database.write() as connection:
            await connection.execute(insert(events), rows.events)
            if rows.step_logs:
                await connection.execute(insert(step_logs), rows.step_logs)
            if rows.host_results:
                await connection.execute(
                    self._upsert(host_results, ("task", "node", "host")), list(rows.host_results.values())
                )
                await connection.execute(self._upsert(node_results, ("task", "node")), list(rows.node_results.values()))
            states = to_json({state: number for state, number in tally.states.items() if number})
            await connection.execute(
                update(tasks)
                .where(tasks.c.n == task)
                .values(
                    seq=batch[-1].seq,
                    units=tally.units,
                    graph=tally.graph,
                    tally=states,
                    bytes=tasks.c.bytes + rows.bytes,
                )
            )
        return rows.over

    async def drop(self, task: int) -> None:
        """Forgets what is kept of a run, to be taken anew from its journal."""
        async with self._database.write() as connection:
            for table in (events, step_logs, host_results, node_results):
                await connection.execute(delete(table).where(table.c.task == task))
            await connection.execute(update(tasks).where(tasks.c.n == task).values(seq=0, bytes=0, tally="{}"))

    async def put_graph(self, digest: str, text: bytes) -> None:
        """Keeps a graph, once however many runs execute it."""
        body = zlib.compress(text)
        async with self._database.write() as connection:
            statement = self._insert(graphs).values(digest=digest, body=body)
            await connection.execute(statement.on_conflict_do_nothing())

    def _insert(self, table: Table) -> Any:
        return sqlite.insert(table) if self._database.is_sqlite else postgresql.insert(table)

    def _upsert(self, table: Table, keys: tuple[str, ...]) -> Insert:
        statement = self._insert(table)
        others = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
        found: Insert = statement.on_conflict_do_update(index_elements=list(keys), set_=others)
        return found

    # Asking

    async def events(
        self, task: int, *, after: int = 0, limit: int = 1000, kinds: Collection[str] = ()
    ) -> list[KeptEvent]:
        """Events after this sequence number, in order; only of these kinds, if any are named."""
        query = select(events).where(events.c.task == task, events.c.seq > after).order_by(events.c.seq).limit(limit)
        if kinds:
            query = query.where(events.c.kind.in_(sorted(kinds)))
        return [KeptEvent(row.seq, row.time, row.kind, row.node, row.host, row.data) for row in await self._rows(query)]

    async def graph(self, digest: str) -> bytes:
        """The JSON of a graph."""
        async with self._database.read() as connection:
            body = await connection.scalar(select(graphs.c.body).where(graphs.c.digest == digest))
        if body is None:
            raise NotFoundError("there is no graph yet", hint="it appears when planning is done")
        return zlib.decompress(body)

    async def node_results(self, task: int) -> list[NodeRecord]:
        """Every node some host of which has ended."""
        rows = await self._rows(select(node_results).where(node_results.c.task == task))
        return [
            NodeRecord(node=row.node, state=row.state, tally=from_json(row.tally), started=row.started, ended=row.ended)
            for row in rows
        ]

    async def host_results(
        self,
        task: int,
        *,
        after: tuple[str, str] | None = None,
        limit: int = 1000,
        node: str = "",
        host: str = "",
        states: Collection[str] = (),
    ) -> list[HostRecord]:
        """Every (node, host) that has ended, by name, behind `after`. `node` may also be a task or a module."""
        table = host_results
        query = select(table).where(table.c.task == task).order_by(table.c.node, table.c.host).limit(limit)
        if after is not None:
            query = query.where(or_(table.c.node > after[0], (table.c.node == after[0]) & (table.c.host > after[1])))
        query = _chosen(query, table, node, host, states)
        return [_host_record(row) for row in await self._rows(query)]

    async def states(self, task: int) -> list[tuple[str, str, str]]:
        """Node, host and state of everything that has ended: all of it, as cheaply as can be."""
        table = host_results
        query = select(table.c.node, table.c.host, table.c.state).where(table.c.task == task)
        return [(row.node, row.host, row.state) for row in await self._rows(query)]

    async def standing(self, task: int, *, resumed: bool, running: bool) -> list[tuple[str, str, str]]:
        """The same as it stands now: what did not end well before the last resume counts as not ended, and what is
        being changed is `running`. `resumed` and `running`: whether the task was, and is."""
        table = host_results
        async with self._database.read() as connection:  # all of one moment: a resume may be taken in meanwhile
            since = await _begun(connection, task) if resumed else 0
            # A row for each host would take ten times as long.
            hosts = func.aggregate_strings(table.c.host, ",").label("hosts")
            query = select(table.c.node, table.c.state, hosts).where(table.c.task == task)
            if since:
                query = query.where(or_(table.c.seq > since, table.c.state.not_in(NOT_WELL)))
            rows = (await connection.execute(query.group_by(table.c.node, table.c.state))).all()
            found = [(row.node, host, row.state) for row in rows for host in row.hosts.split(",")]
            if not running:
                return found
            same = (table.c.task == events.c.task) & (table.c.node == events.c.node) & (table.c.host == events.c.host)
            begun = (
                select(events.c.node, events.c.host)
                .outerjoin(table, same)
                .where(events.c.task == task, events.c.seq > since, events.c.kind == EventKind.UNIT_RUNNING.value)
                .where(or_(table.c.seq.is_(None), table.c.seq < events.c.seq))
            )
            return found + [(row.node, row.host, "running") for row in await connection.execute(begun)]

    async def failures(self, task: int, *, resumed: bool, limit: int = 200) -> list[tuple[HostRecord, int]]:
        """Every (node, host) that failed or was stopped midway since the last resume, in order, each with how many
        others it blocked."""
        table = host_results
        async with self._database.read() as connection:
            since = await _begun(connection, task) if resumed else 0
            recent = (table.c.task == task) & (table.c.seq > since)
            query = select(table).where(recent, table.c.state.in_(("failed", "interrupted"))).order_by(table.c.seq)
            roots = (
                select(table.c.root_node, table.c.root_host, func.count().label("blocked"))
                .where(recent, table.c.state == "blocked")
                .group_by(table.c.root_node, table.c.root_host)
            )
            blocked = {(row.root_node, row.root_host): row.blocked for row in await connection.execute(roots)}
            found = [_host_record(row) for row in await connection.execute(query.limit(limit))]
        return [(each, blocked.get((each.node, each.host), 0)) for each in found]

    async def times(self, task: int) -> list[tuple[str, str, str, float, float, float]]:
        """Node, host, state, start, end and busy seconds of everything that was begun and has ended; no more, since
        there may be a hundred thousand."""
        names = ("node", "host", "state", "started", "ended", "more")
        query = select(*(host_results.c[name] for name in names)).where(
            host_results.c.task == task, host_results.c.started.is_not(None), host_results.c.ended.is_not(None)
        )
        found = [tuple(row) for row in await self._rows(query)]
        return [(*rest, float(from_json(more).get("busy", 0.0))) for *rest, more in found]

    async def step_logs(
        self,
        task: int,
        *,
        after: int = 0,
        limit: int = 200,
        node: str = "",
        host: str = "",
        states: Collection[str] = (),
        contains: str = "",
        latest: bool = False,
    ) -> list[StepLog]:
        """What steps printed, in order of their ends, after a sequence number; or the `latest` so many."""
        table = step_logs
        query = select(table).where(table.c.task == task, table.c.seq > after).limit(limit)
        query = query.order_by(table.c.seq.desc() if latest else table.c.seq)
        query = _chosen(query, table, node, host, states)
        if contains:
            pattern = f"%{_escaped(contains.lower())}%"
            texts = (table.c.stdout, table.c.stderr, table.c.error)
            query = query.where(or_(*(func.lower(column).like(pattern, escape="\\") for column in texts)))
        rows = await self._rows(query)
        found = [StepLog(**{name: getattr(row, name) for name in StepLog.__slots__}) for row in rows]
        return found[::-1] if latest else found

    async def _rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        async with self._database.read() as connection:
            found: Sequence[Row[Any]] = (await connection.execute(query)).all()
            return found


async def _begun(connection: AsyncConnection, task: int) -> int:
    """The sequence number with which the run last began."""
    kinds = (EventKind.RUN_STARTED.value, EventKind.RUN_RESUMED.value)
    query = select(func.max(events.c.seq)).where(events.c.task == task, events.c.kind.in_(kinds))
    return await connection.scalar(query) or 0


def _chosen(query: Select[Any], table: Table, node: str, host: str, states: Collection[str]) -> Select[Any]:
    if node:
        query = query.where(or_(table.c.node == node, table.c.node.like(f"{_escaped(node)}.%", escape="\\")))
    if host:
        query = query.where(table.c.host == host)
    if states:
        query = query.where(table.c.state.in_(sorted(states)))
    return query


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _host_record(row: Row[Any]) -> HostRecord:
    names = [name for name in HostRecord.__slots__ if name != "more"]
    return HostRecord(**{name: getattr(row, name) for name in names}, more=from_json(row.more))
