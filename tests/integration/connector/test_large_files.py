"""Large files over real sshd: each cipher, new keys half way, through a bastion, to a host that stalls."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from pathlib import PurePosixPath

import asyncssh
import pytest

from kubexm.connector import Command, ConnectionPool, SSHConnector, Upload
from kubexm.testing import TcpProxy

from ..conftest import MakeServer

DATA = os.urandom(9_000_001)
TARGET = PurePosixPath("/run/file")


async def arrives(connector: SSHConnector, data: bytes = DATA, path: PurePosixPath = TARGET) -> None:
    assert await connector.upload(Upload(source=data, path=path))
    result = await connector.execute(Command(script=f"sha256sum <{path}"))
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "cipher",
    [
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "chacha20-poly1305@openssh.com",
        "aes128-ctr",
        "aes256-ctr",
    ],
)
async def test_each_cipher(make_sshd: MakeServer, pool: ConnectionPool, cipher: str) -> None:
    server = make_sshd(options={"Ciphers": cipher})
    await arrives(pool.connector("n1", server.settings("ops")))


@pytest.mark.parametrize("side", ["host", "here", "both"])
async def test_new_keys_half_way(
    make_sshd: MakeServer, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    if side != "host":
        monkeypatch.setattr(asyncssh, "connect", functools.partial(asyncssh.connect, rekey_bytes=1_000_000))
    server = make_sshd(options={} if side == "here" else {"RekeyLimit": "1M"})
    connector = pool.connector("n1", server.settings())
    paths = [PurePosixPath(f"/run/file{number}") for number in range(2)]
    await asyncio.gather(*(arrives(connector, DATA[number:], path) for number, path in enumerate(paths)))
    assert server.connections() == 1, "none broke on the way"


async def test_through_a_bastion(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    bastion, server = make_sshd(), make_sshd(address="127.0.0.2")
    await arrives(pool.connector("n1", server.settings(bastions=(bastion.settings(),))))


async def test_a_host_that_reads_nothing_for_a_while(make_sshd: MakeServer, pool: ConnectionPool) -> None:
    server = make_sshd()
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        connector = pool.connector("n1", server.settings(port=proxy.port, host_key=server.fingerprint))
        await connector.execute(Command(script=":"))
        proxy.stall_after(1_000_000)
        sending = asyncio.ensure_future(arrives(connector, DATA * 4))
        while proxy.flowing.is_set():
            await asyncio.sleep(0.01)
        asked = asyncio.ensure_future(connector.execute(Command(script="echo there")))
        proxy.heal()
        assert (await asked).text == "there"
        await sending
