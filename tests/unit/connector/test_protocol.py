"""The connectors are what they say they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import PurePosixPath

import kubexm.connector
from kubexm.connector import ConnectionPool, ConnectionSettings, Connector, LocalConnector


async def test_connectors_keep_the_protocol() -> None:
    pool = ConnectionPool()
    ssh: Connector = pool.connector("n1", ConnectionSettings(address="192.0.2.1"))
    local: Connector = LocalConnector("here")
    assert (ssh.host, local.host) == ("n1", "here")
    ssh.fence(PurePosixPath("/lease"), 1)
    await pool.close()


async def test_a_pool_gives_out_one_connector_per_host() -> None:
    pool = ConnectionPool()
    settings = ConnectionSettings(address="192.0.2.1")
    assert pool.connector("n1", settings) is pool.connector("n1", settings)
    assert pool.local("here") is pool.local("here")
    await pool.close()


def test_names_are_all_there() -> None:
    for name in kubexm.connector.__all__:
        assert getattr(kubexm.connector, name)
    assert not hasattr(kubexm.connector, "Nonsense")


def test_asyncssh_is_only_imported_by_those_who_connect() -> None:
    code = "import sys, kubexm.connector; sys.exit('asyncssh' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
