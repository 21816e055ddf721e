"""The database behind the store: SQLite for one machine, PostgreSQL for teams. Knows connections, not what is kept.

Reads and writes are apart: SQLite lets one write at a time, so a write says so when it begins and never finds out half
way. What goes wrong comes out as a StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Dialect, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from kubexm.errors import DatabaseError, StoreError

__all__ = ["Database", "database_url"]

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_MIGRATION_LOCK = 0x6B756265  # one number for all kubexm servers of a PostgreSQL database
_SERVER_LOCK = _MIGRATION_LOCK + 1
_BUSY = 30.0  # seconds a write waits for another process's
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-32000", "temp_store=MEMORY")


def database_url(given: str) -> URL:
    """What was given, with the driver kubexm uses; StoreError if it is no database kubexm knows."""
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        url = None
    driver = None if url is None else _DRIVERS.get(url.drivername.partition("+")[0])
    if url is None or driver is None:
        raise StoreError(
            "this is not the URL of a database kubexm can use",
            hint="sqlite:////path/to/file or postgresql://user@host/database",
        )
    if driver.startswith("sqlite") and (not url.database or url.database.startswith((":memory:", "file:"))):
        raise StoreError("a store needs a file", hint="sqlite:////path/to/file, with four slashes for an absolute path")
    return url.set(drivername=driver)


class Database:
    """Connections to one database. `open` it, `close` it."""

    def __init__(self, url: URL, engine: AsyncEngine) -> None:
        self._url = url
        self._engine = engine
        self._writing = asyncio.Lock()
        self._claim: AsyncConnection | None = None

    @classmethod
    async def open(cls, given: str) -> Self:
        """Connects, and brings the tables to this version's form."""
        url = database_url(given)
        sqlite = url.get_backend_name() == "sqlite"
        if sqlite:
            _private(Path(url.database or ""))
            engine = create_async_engine(url, pool_size=8, connect_args={"timeout": _BUSY})
            event.listen(engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(engine.sync_engine, "begin", _begin_sqlite)
        else:
            engine = create_async_engine(url, pool_size=8, pool_pre_ping=True, connect_args={"timeout": 10.0})
        database = cls(url, engine)
        try:
            await database._migrate()
        except BaseException:
            await engine.dispose()
            raise
        return database

    async def close(self) -> None:
        """Ends all connections."""
        if self._claim is not None:
            await self._claim.close()
            self._claim = None
        await self._engine.dispose()

    @property
    def dialect(self) -> Dialect:
        """Which SQL it speaks."""
        return self._engine.dialect

    @property
    def is_sqlite(self) -> bool:
        """True for the embedded one."""
        return self._engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """The file of the embedded one; None for a server elsewhere."""
        return Path(self._url.database or "") if self.is_sqlite else None

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return self._url.set(drivername=self._url.get_backend_name()).render_as_string(hide_password=True)

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection that sees one state of the database."""
        async with self._told(), self._engine.connect() as connection:
            if not self.is_sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: all of it or nothing."""
        alone = self._writing if self.is_sqlite else contextlib.nullcontext()
        async with alone, self._told(), self._engine.connect() as connection:
            await connection.execution_options(kubexm_writes=True)
            async with connection.begin():
                yield connection

    async def claim(self) -> None:
        """Makes this process the only server of a PostgreSQL database, for as long as it lives."""
        if self.is_sqlite:  # its directory is claimed instead
            return
        async with self._told():
            self._claim = await self._engine.connect()
            await self._claim.execution_options(isolation_level="AUTOCOMMIT")
            found = await self._claim.scalar(text("SELECT pg_try_advisory_lock(:n)").bindparams(n=_SERVER_LOCK))
        if not found:
            await self._claim.close()
            self._claim = None
            raise StoreError(
                f"another kubexm server uses the database {self.shown}", hint="stop it, or use another database"
            )

    async def _migrate(self) -> None:
        async with self.write() as connection:
            if not self.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:n)").bindparams(n=_MIGRATION_LOCK))
            await connection.run_sync(_upgrade)

    @contextlib.asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            # Parameters may hold what is secret: only the driver's own words are told.
            words = " ".join(str(cause).replace(f"{type(cause)}: ", "").split())[:300]
            raise DatabaseError(
                f"the database {self.shown} failed: {words}", hint="is it up, is its disk full, may kubexm use it?"
            ) from error


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by us, not by the driver
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("kubexm_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _private(path: Path) -> None:
    """Nobody else reads the file, nor those SQLite makes beside it, which get its mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_uid == os.getuid():
            path.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{path}: the database cannot be opened: {error.strerror}") from error


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"the database was made by another version of kubexm ({error})", hint="use the newest kubexm it has seen"
        ) from error
