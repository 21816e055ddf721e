"""Who did what, from where, and how it ended: entries that are only ever added, each sealed into a chain.

An entry's hash is keyed (HMAC) and covers the hash before it: whoever edits, removes or inserts entries in the database
without the key is found out. The key is itself sealed with the store's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from kubexm.store.cipher import Keyring
from kubexm.store.database import Database
from kubexm.store.tables import audit, meta
from kubexm.store.texts import clean, from_json, to_json

__all__ = ["Audit", "AuditEntry", "AuditReport"]

_START = "0" * 64
_LOCK = 0x6B756267


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that was done, or refused."""

    n: int
    time: float
    actor: str
    address: str
    action: str
    target: str
    outcome: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Whether the chain is whole."""

    entries: int
    head: str
    """The hash of the last entry: note it elsewhere, and a later check proves that nothing before it was changed."""
    problem: str = ""

    @property
    def ok(self) -> bool:
        """True if nothing was tampered with."""
        return not self.problem


class Audit:
    """The chain of entries."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring
        self._key = b""

    async def add(
        self,
        *,
        actor: str,
        action: str,
        target: str = "",
        outcome: str,
        address: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> AuditEntry:
        """Adds an entry behind the last one."""
        async with self._database.write() as connection:
            if not self._database.is_sqlite:  # one after the other: each needs the hash of the one before
                await connection.execute(text("SELECT pg_advisory_xact_lock(:n)").bindparams(n=_LOCK))
            key = await self._the_key(connection)
            count, head = await _head(connection)
            row: dict[str, Any] = {
                "n": count + 1,
                "time": time.time(),
                "actor": clean(actor),
                "address": clean(address),
                "action": clean(action),
                "target": clean(target),
                "outcome": clean(outcome),
                "detail": to_json(dict(detail or {})),
            }
            row["hash"] = _hash(key, head, row)
            await connection.execute(insert(audit).values(**row))
            value = f"{count + 1} {row['hash']}"
            if count:
                await connection.execute(update(meta).where(meta.c.name == "audit head").values(value=value))
            else:
                await connection.execute(insert(meta).values(name="audit head", value=value))
        return AuditEntry(**{**row, "detail": dict(detail or {})})

    async def page(self, *, before: int | None = None, limit: int = 100, actor: str = "") -> list[AuditEntry]:
        """Entries, the latest first."""
        query = select(audit).order_by(audit.c.n.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.n < before)
        if actor:
            query = query.where(audit.c.actor == actor)
        async with self._database.read() as connection:
            return [_entry(row) for row in (await connection.execute(query)).mappings()]

    async def verify(self, expect: str = "") -> AuditReport:
        """Checks every entry from the first; with `expect`, also that an entry of that hash is still there."""
        async with self._database.write() as connection:  # nothing is added meanwhile
            key = await self._the_key(connection)
            count, head = await _head(connection)
            before, number, seen = _START, 0, not expect
            while True:
                query = select(audit).where(audit.c.n > number).order_by(audit.c.n).limit(1000)
                rows = (await connection.execute(query)).mappings().all()
                if not rows:
                    break
                for row in rows:
                    if row["n"] != number + 1:
                        return AuditReport(entries=number, head=before, problem=f"entry {number + 1} is missing")
                    if not hmac.compare_digest(_hash(key, before, dict(row)), row["hash"]):
                        return AuditReport(
                            entries=number, head=before, problem=f"entry {number + 1} is not what was written"
                        )
                    number, before = row["n"], row["hash"]
                    seen = seen or before == expect
        if (count, head) != (number, before):
            return AuditReport(
                entries=number, head=before, problem=f"{count} entries were written, and {number} are here"
            )
        if not seen:
            return AuditReport(entries=number, head=before, problem=f"no entry has the hash {expect}")
        return AuditReport(entries=number, head=before)

    async def _the_key(self, connection: AsyncConnection) -> bytes:
        if not self._key:
            kept = await connection.scalar(select(meta.c.value).where(meta.c.name == "audit key"))
            if kept is None:
                key = secrets.token_bytes(32)
                sealed = self._keyring.seal(key, "meta audit key").hex()
                await connection.execute(insert(meta).values(name="audit key", value=sealed))
                return key  # known for good only once it is committed
            self._key = self._keyring.open(bytes.fromhex(kept), "meta audit key")
        return self._key


async def _head(connection: AsyncConnection) -> tuple[int, str]:
    kept = await connection.scalar(select(meta.c.value).where(meta.c.name == "audit head"))
    if kept is None:
        return 0, _START
    number, _, digest = kept.partition(" ")
    return int(number), digest


def _hash(key: bytes, before: str, row: Mapping[str, Any]) -> str:
    names = ("n", "time", "actor", "address", "action", "target", "outcome", "detail")
    body = to_json([before, *(row[name] for name in names)])
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def _entry(row: RowMapping) -> AuditEntry:
    return AuditEntry(**{**row, "detail": from_json(row["detail"])})
