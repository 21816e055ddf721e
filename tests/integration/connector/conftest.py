"""The three ways to a host that must all keep the same contract."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, ConnectionPool, LocalConnector, SSHConnector
from kubexm.testing import SshServer, why_no_sshd
from tests.integration.conftest import MakeServer


@dataclass(frozen=True)
class Way:
    """A connector, and a directory on its host to work in."""

    connector: SSHConnector | LocalConnector
    directory: PurePosixPath

    async def shell(self, script: str) -> str:
        return (await self.connector.execute(Command(script=script))).check().text

    async def shell_of_a_change(self, script: str) -> str:
        return (await self.connector.execute(Command(script=script, changes=True))).check().text


@pytest.fixture
def work() -> Iterator[PurePosixPath]:
    path = tempfile.mkdtemp(prefix="kubexm-work-", dir="/dev/shm")
    Path(path).chmod(0o755)
    yield PurePosixPath(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["ssh-root", "ssh-sudo", "local"])
async def way(request: pytest.FixtureRequest, pool: ConnectionPool, work: PurePosixPath) -> AsyncIterator[Way]:
    if request.param == "local":
        if reason := why_no_sshd():
            pytest.skip(reason)  # root's files are part of the contract
        store = Path(tempfile.mkdtemp(prefix="kubexm-store-", dir="/dev/shm"))
        connector = LocalConnector("here", store=PurePosixPath(store))
        yield Way(connector, work)
        await connector.close()
        shutil.rmtree(store, ignore_errors=True)
        return
    server: SshServer = request.getfixturevalue("sshd")
    yield _over_ssh(request.param, pool, server, work)


@pytest.fixture(params=["ssh-root", "ssh-sudo"])
def own_way(request: pytest.FixtureRequest, pool: ConnectionPool, work: PurePosixPath, make_sshd: MakeServer) -> Way:
    """A way to a host of its own: no other test has left anything in its /run."""
    return _over_ssh(request.param, pool, make_sshd(), work)


def _over_ssh(kind: str, pool: ConnectionPool, server: SshServer, work: PurePosixPath) -> Way:
    user = "root" if kind == "ssh-root" else "ops"
    return Way(pool.connector(user, server.settings(user)), work)
