"""Secrets and uploaded files of clusters, sealed. Each belongs to one cluster, and opens under its own name only."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from kubexm.errors import NotFoundError
from kubexm.redact import Secret
from kubexm.store.cipher import Keyring
from kubexm.store.database import Database
from kubexm.store.tables import files, meta, secrets

__all__ = ["KeptFile", "KeptSecret", "Vault"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """That there is a secret, not what it is."""

    name: str
    created: float
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """That there is a file, and how large it is."""

    name: str
    size: int
    created: float
    created_by: str


class Vault:
    """What clusters need and nobody may read in the database."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    # Secrets

    async def put_secret(self, cluster: str, name: str, secret: Secret, *, by: str) -> None:
        """Keeps a secret, in place of an older one of that name."""
        sealed = self._keyring.seal(secret.reveal().encode(), f"secret {cluster}/{name}")
        await self._put(secrets, {"cluster": cluster, "name": name, "sealed": sealed, "created_by": by})

    async def secrets(self, cluster: str) -> list[KeptSecret]:
        """Which secrets there are."""
        query = select(secrets.c.name, secrets.c.created, secrets.c.created_by).where(secrets.c.cluster == cluster)
        async with self._database.read() as connection:
            rows = (await connection.execute(query.order_by(secrets.c.name))).mappings()
            return [KeptSecret(**row) for row in rows]

    async def open_secrets(self, cluster: str) -> dict[str, Secret]:
        """All secrets of a cluster, for the one who carries out its task."""
        query = select(secrets.c.name, secrets.c.sealed).where(secrets.c.cluster == cluster)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        opened = {row.name: self._keyring.open(row.sealed, f"secret {cluster}/{row.name}") for row in rows}
        return {name: Secret(content.decode()) for name, content in opened.items()}

    async def remove_secret(self, cluster: str, name: str) -> None:
        """Forgets a secret."""
        await self._remove(secrets, cluster, name, "secret")

    # Files

    async def put_file(self, cluster: str, name: str, content: bytes, *, by: str) -> None:
        """Keeps a file, in place of an older one of that name."""
        sealed = self._keyring.seal(content, f"file {cluster}/{name}")
        values = {"cluster": cluster, "name": name, "sealed": sealed, "size": len(content), "created_by": by}
        await self._put(files, values)

    async def files(self, cluster: str) -> list[KeptFile]:
        """Which files there are."""
        table = files
        query = select(table.c.name, table.c.size, table.c.created, table.c.created_by)
        query = query.where(table.c.cluster == cluster).order_by(table.c.name)
        async with self._database.read() as connection:
            return [KeptFile(**row) for row in (await connection.execute(query)).mappings()]

    async def size_of_files(self, cluster: str) -> int:
        """How many bytes the files of a cluster have."""
        query = select(func.coalesce(func.sum(files.c.size), 0)).where(files.c.cluster == cluster)
        async with self._database.read() as connection:
            return int(await connection.scalar(query) or 0)

    async def open_files(self, cluster: str) -> dict[str, bytes]:
        """All files of a cluster, for the one who carries out its task."""
        query = select(files.c.name, files.c.sealed).where(files.c.cluster == cluster)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return {row.name: self._keyring.open(row.sealed, f"file {cluster}/{row.name}") for row in rows}

    async def remove_file(self, cluster: str, name: str) -> None:
        """Forgets a file."""
        await self._remove(files, cluster, name, "file")

    # Keys

    async def check(self) -> None:
        """Proves that this keyring is the store's; StoreError if the store was made with another."""
        place = "meta canary"
        async with self._database.write() as connection:
            kept = await connection.scalar(select(meta.c.value).where(meta.c.name == "canary"))
            if kept is None:
                sealed = self._keyring.seal(b"kubexm", place).hex()
                await connection.execute(meta.insert().values(name="canary", value=sealed))
                return
        self._keyring.open(bytes.fromhex(kept), place)

    async def reseal(self) -> int:
        """Seals everything with the key that seals now; says how much was under another. All of it or nothing."""
        done = 0
        async with self._database.write() as connection:
            for table, kind in ((secrets, "secret"), (files, "file")):
                for row in (await connection.execute(select(table.c.cluster, table.c.name, table.c.sealed))).all():
                    if self._keyring.is_current(row.sealed):
                        continue
                    place = f"{kind} {row.cluster}/{row.name}"
                    again = self._keyring.seal(self._keyring.open(row.sealed, place), place)
                    where = (table.c.cluster == row.cluster) & (table.c.name == row.name)
                    await connection.execute(update(table).where(where).values(sealed=again))
                    done += 1
            for name in ("canary", "audit key"):
                kept = await connection.scalar(select(meta.c.value).where(meta.c.name == name))
                if kept is not None and not self._keyring.is_current(bytes.fromhex(kept)):
                    again = self._keyring.seal(self._keyring.open(bytes.fromhex(kept), f"meta {name}"), f"meta {name}")
                    await connection.execute(update(meta).where(meta.c.name == name).values(value=again.hex()))
                    done += 1
        return done

    async def _put(self, table: Table, values: dict[str, Any]) -> None:
        values["created"] = time.time()
        statement: Any = (sqlite.insert if self._database.is_sqlite else postgresql.insert)(table).values(**values)
        others = {name: statement.excluded[name] for name in values if name not in ("cluster", "name")}
        async with self._database.write() as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["cluster", "name"], set_=others))

    async def _remove(self, table: Table, cluster: str, name: str, what: str) -> None:
        async with self._database.write() as connection:
            gone = await connection.execute(delete(table).where(table.c.cluster == cluster, table.c.name == name))
        if not gone.rowcount:
            raise NotFoundError(f"{cluster} has no {what} {name!r}")
