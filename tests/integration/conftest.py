"""Real sshd servers for integration tests. They need root; without it these tests are skipped, with the reason."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kubexm.connector import ConnectionPool
from kubexm.store.database import Database
from kubexm.store.tables import METADATA
from kubexm.testing import SshServer, why_no_sshd
from tests.postgres import PostgresServer, why_no_postgres

MakeServer = Callable[..., SshServer]


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    # Not pytest's own: users other than root must be able to enter it.
    with tempfile.TemporaryDirectory(prefix="kubexm-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def sshd(server_directory: Path) -> Iterator[SshServer]:
    """A host with root, and `ops` who has sudo with a password. Shared: leave it as it was."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    with SshServer(directory=server_directory / "shared", hostname="shared-host") as server:
        yield server


@pytest.fixture
def make_sshd(server_directory: Path) -> Iterator[MakeServer]:
    """Starts further servers, with whatever options a test needs."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    started: list[SshServer] = []

    def make(**options: object) -> SshServer:
        directory = Path(tempfile.mkdtemp(dir=server_directory))
        directory.chmod(0o755)
        server = SshServer(directory=directory, **options)  # type: ignore[arg-type]
        started.append(server)
        server.start()
        return server

    yield make
    for server in started:
        server.stop()


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    connections = ConnectionPool(reconnect_for=10.0)
    yield connections
    await connections.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, shared; each test gets a database of its own."""
    if reason := why_no_postgres():
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For each kind of database, one with all tables in it, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "kubexm.db"
    _migrate(f"sqlite:///{path}")
    return {"sqlite": str(path)}


def _migrate(url: str) -> None:
    async def once() -> None:
        await (await Database.open(url)).close()

    asyncio.run(once())


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, one of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store' / 'kubexm.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path, migrated: dict[str, str]) -> str:
    """A database with all tables and nothing in them, one of each kind."""
    if request.param == "sqlite":
        path = tmp_path / "store" / "kubexm.db"
        path.parent.mkdir(mode=0o700)
        shutil.copy(migrated["sqlite"], path)
        return f"sqlite:///{path}"
    server: PostgresServer = request.getfixturevalue("postgres")
    if "postgresql" not in migrated:
        migrated["postgresql"] = server.database()
        _migrate(migrated["postgresql"])
    tables = ", ".join(table.name for table in METADATA.sorted_tables)
    server.sql(f"TRUNCATE {tables} RESTART IDENTITY", migrated["postgresql"].rpartition("/")[2])
    return migrated["postgresql"]
