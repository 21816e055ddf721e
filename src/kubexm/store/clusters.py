"""Clusters and every version of their spec, with who changed what. Must not know what a spec means."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kubexm.errors import ConflictError, NotFoundError
from kubexm.store.database import Database
from kubexm.store.tables import cluster_specs, clusters, facts, files, secrets
from kubexm.store.texts import clean, from_json, to_json

__all__ = ["ClusterRecord", "Clusters", "FactsRecord", "SpecRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A cluster that is registered."""

    id: int
    name: str
    version: int
    """Of its spec; each edit is one more."""
    state: str
    created: float
    created_by: str
    updated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecord:
    """One version of a spec."""

    version: int
    text: str = field(repr=False)
    created: float
    created_by: str
    note: str
    edits: tuple[dict[str, Any], ...]
    """What differs from the version before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRecord:
    """What one host last told about itself, or why it could not be asked."""

    host: str
    time: float
    facts: dict[str, Any]
    error: str


class Clusters:
    """The tables of clusters, their specs and their hosts' facts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, name: str, text: str, *, by: str, note: str = "") -> ClusterRecord:
        """Registers a cluster with the first version of its spec; ConflictError if the name is taken."""
        now = time.time()
        row = {"name": name, "version": 1, "state": "registered", "created": now, "created_by": by, "updated": now}
        async with self._database.write() as connection:
            try:
                number = (await connection.execute(insert(clusters).values(**row))).inserted_primary_key
            except IntegrityError:
                raise ConflictError(
                    f"there is a cluster {name!r} already", hint="edit its spec, or choose another metadata.name"
                ) from None
            assert number is not None
            await connection.execute(insert(cluster_specs).values(_spec_row(number[0], 1, text, now, by, note, ())))
        return ClusterRecord(id=number[0], **row)  # type: ignore[arg-type]

    async def edit(
        self, name: str, text: str, edits: Sequence[dict[str, Any]], *, by: str, note: str = "", on: int | None = None
    ) -> ClusterRecord:
        """A further version of the spec; ConflictError if the newest is not `on`, the one that was edited."""
        now = time.time()
        async with self._database.write() as connection:
            query = select(clusters).where(clusters.c.name == name)
            row = (await connection.execute(query if self._database.is_sqlite else query.with_for_update())).mappings()
            found = _found(row.first(), name)
            if on is not None and on != found.version:
                raise ConflictError(
                    f"the spec of {name} is at version {found.version}, and this edit is of version {on}",
                    hint="read the newest spec, and edit that",
                )
            version = found.version + 1
            await connection.execute(
                update(clusters).where(clusters.c.id == found.id).values(version=version, updated=now)
            )
            await connection.execute(
                insert(cluster_specs).values(_spec_row(found.id, version, text, now, by, note, edits))
            )
        return ClusterRecord(
            id=found.id,
            name=name,
            version=version,
            state=found.state,
            created=found.created,
            created_by=found.created_by,
            updated=now,
        )

    async def get(self, name: str) -> ClusterRecord:
        """The cluster of this name."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(clusters).where(clusters.c.name == name))).mappings().first()
        return _found(row, name)

    async def page(
        self, *, after: str = "", limit: int = 100, names: Collection[str] | None = None
    ) -> list[ClusterRecord]:
        """Clusters by name, behind `after`; only these, unless `names` is None."""
        query = select(clusters).where(clusters.c.name > after).order_by(clusters.c.name).limit(limit)
        if names is not None:
            query = query.where(clusters.c.name.in_(sorted(names)))
        async with self._database.read() as connection:
            return [ClusterRecord(**row) for row in (await connection.execute(query)).mappings()]

    async def spec(self, name: str, version: int | None = None) -> SpecRecord:
        """One version of the spec; None: the newest."""
        cluster = await self.get(name)
        wanted = cluster.version if version is None else version
        table = cluster_specs
        query = select(table).where(table.c.cluster == cluster.id, table.c.version == wanted)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            raise NotFoundError(
                f"the spec of {name} has no version {wanted}", hint=f"versions are 1 to {cluster.version}"
            )
        return _spec(row)

    async def specs(self, name: str, *, before: int | None = None, limit: int = 50) -> list[SpecRecord]:
        """Versions of the spec, the newest first."""
        cluster = await self.get(name)
        table = cluster_specs
        query = select(table).where(table.c.cluster == cluster.id).order_by(table.c.version.desc()).limit(limit)
        if before is not None:
            query = query.where(table.c.version < before)
        async with self._database.read() as connection:
            return [_spec(row) for row in (await connection.execute(query)).mappings()]

    async def set_state(self, name: str, state: str) -> None:
        """Notes what is known of the cluster by now."""
        async with self._database.write() as connection:
            await connection.execute(
                update(clusters).where(clusters.c.name == name).values(state=state, updated=time.time())
            )

    async def remove(self, name: str) -> None:
        """Forgets a cluster, its specs, secrets, files and facts. What its tasks did stays until it is too old."""
        cluster = await self.get(name)
        async with self._database.write() as connection:
            for table in (secrets, files, facts):
                await connection.execute(delete(table).where(table.c.cluster == name))
            await connection.execute(delete(cluster_specs).where(cluster_specs.c.cluster == cluster.id))
            await connection.execute(delete(clusters).where(clusters.c.id == cluster.id))

    # Facts

    async def put_facts(self, name: str, found: Sequence[FactsRecord]) -> None:
        """Keeps what the hosts told, in place of what they told before."""
        rows = [
            {"cluster": name, "host": each.host, "time": each.time, "facts": to_json(each.facts), "error": each.error}
            for each in found
        ]
        async with self._database.write() as connection:
            hosts = [each.host for each in found]
            await connection.execute(delete(facts).where(facts.c.cluster == name, facts.c.host.in_(hosts)))
            if rows:
                await connection.execute(insert(facts), rows)

    async def facts(self, name: str) -> list[FactsRecord]:
        """What each host last told."""
        query = select(facts).where(facts.c.cluster == name).order_by(facts.c.host)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return [FactsRecord(host=row.host, time=row.time, facts=from_json(row.facts), error=row.error) for row in rows]


def _found(row: RowMapping | None, name: str) -> ClusterRecord:
    if row is None:
        raise NotFoundError(f"there is no cluster {name!r}", hint="GET /api/v1/clusters lists them")
    return ClusterRecord(**row)


def _spec_row(
    cluster: int, version: int, text: str, now: float, by: str, note: str, edits: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "version": version,
        "text": text,
        "created": now,
        "created_by": by,
        "note": clean(note),
        "edits": to_json(list(edits)),
    }


def _spec(row: RowMapping) -> SpecRecord:
    return SpecRecord(
        version=row["version"],
        text=row["text"],
        created=row["created"],
        created_by=row["created_by"],
        note=row["note"],
        edits=tuple(from_json(row["edits"])),
    )
