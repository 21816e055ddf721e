"""Plans that were made, for review and for carrying out later; and answers to requests that may come twice."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kubexm.errors import ConflictError, NotFoundError
from kubexm.store.database import Database
from kubexm.store.tables import idempotency, plans
from kubexm.store.texts import from_json, to_json

__all__ = ["Answers", "KeptAnswer", "PlanRecord", "Plans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan; its body is the file `kubexm apply` takes."""

    id: str
    cluster: str
    pipeline: str
    spec_version: int
    created: float
    created_by: str
    offline: bool
    changes: bool
    nodes: int
    units: int
    digest: str
    body: bytes = field(repr=False, default=b"")


class Plans:
    """The table of plans."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, plan: PlanRecord) -> None:
        """Keeps a plan."""
        row = {name: getattr(plan, name) for name in PlanRecord.__slots__}
        row["body"] = zlib.compress(plan.body)
        async with self._database.write() as connection:
            await connection.execute(insert(plans).values(**row))

    async def get(self, number: str) -> PlanRecord:
        """The plan of this id, with its body."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(plans).where(plans.c.id == number))).mappings().first()
        if row is None:
            raise NotFoundError(f"there is no plan {number!r}", hint="plans go with the task that made them")
        return _plan(row)

    async def page(self, cluster: str, *, before: str | None = None, limit: int = 50) -> list[PlanRecord]:
        """Plans of a cluster, the latest first, without their bodies."""
        columns = [column for column in plans.c if column.name != "body"]
        query = select(*columns).where(plans.c.cluster == cluster).order_by(plans.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(plans.c.id < before)
        async with self._database.read() as connection:
            return [_plan(row) for row in (await connection.execute(query)).mappings()]


def _plan(row: RowMapping) -> PlanRecord:
    values = dict(row)
    if "body" in values:
        values["body"] = zlib.decompress(values["body"])
    return PlanRecord(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """What a request was answered the first time."""

    status: int
    headers: Mapping[str, str]
    body: str


class Answers:
    """Answers by the key the client gave its request: the same request again gets the same answer, done once."""

    def __init__(self, database: Database, *, seconds: float = 86400.0) -> None:
        self._database = database
        self._seconds = seconds

    async def begin(self, token: str, key: str, fingerprint: str) -> KeptAnswer | None:
        """The answer there is; None if the request is new, and then `end` or `drop` must follow."""
        now = time.time()
        row: dict[str, Any] = {"token": token, "key": key, "fingerprint": fingerprint, "created": now}
        where = (idempotency.c.token == token) & (idempotency.c.key == key)
        async with self._database.write() as connection:
            await connection.execute(delete(idempotency).where(idempotency.c.created < now - self._seconds))
            try:
                async with connection.begin_nested():
                    await connection.execute(insert(idempotency).values(**row, status=None, headers="{}", body=""))
            except IntegrityError:
                found = (await connection.execute(select(idempotency).where(where))).one()
            else:
                return None
        if found.fingerprint != fingerprint:
            raise ConflictError(
                f"the idempotency key {key!r} was used for another request", hint="use a new key for a new request"
            )
        if found.status is None:
            raise _under_way(key)
        return KeptAnswer(status=found.status, headers=from_json(found.headers), body=found.body)

    async def end(self, token: str, key: str, answer: KeptAnswer) -> None:
        """Keeps the answer."""
        where = (idempotency.c.token == token) & (idempotency.c.key == key)
        values = {"status": answer.status, "headers": to_json(dict(answer.headers)), "body": answer.body}
        async with self._database.write() as connection:
            await connection.execute(update(idempotency).where(where).values(**values))

    async def drop(self, token: str, key: str) -> None:
        """The request came to nothing: it may be made again."""
        where = (idempotency.c.token == token) & (idempotency.c.key == key)
        async with self._database.write() as connection:
            await connection.execute(delete(idempotency).where(where))

    async def drop_unfinished(self) -> None:
        """After a crash: what was under way then has no answer to come."""
        async with self._database.write() as connection:
            await connection.execute(delete(idempotency).where(idempotency.c.status.is_(None)))


def _under_way(key: str) -> ConflictError:
    return ConflictError(f"a request with the idempotency key {key!r} is under way", hint="wait for its answer")
