"""Real sshd servers for integration tests. They need root; without it these tests are skipped, with the reason."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kubexm.connector import ConnectionPool
from kubexm.testing import SshServer, why_no_sshd

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
