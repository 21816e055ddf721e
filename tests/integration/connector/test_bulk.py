"""Large files over real sshd: each cipher, new keys half way, small packets, another asyncssh than is known."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

import asyncssh
import pytest

from kubexm.connector import Command, ConnectionPool, SSHConnector, Upload, bulk
from kubexm.testing import TcpProxy

from ..conftest import MakeServer

DATA = os.urandom(9_000_001)
TARGET = PurePosixPath("/run/file")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many packets of data went past asyncssh, and how often keys were exchanged."""
    counter: Counter[str] = Counter()
    send, exchange = bulk._Wire.send, asyncssh.SSHClientConnection._send_kexinit

    def counted(self: Any, channel: Any) -> bool:
        done = send(self, channel)
        counter["past"] += done
        return done

    def exchanged(self: Any) -> None:
        counter["keys"] += 1
        exchange(self)

    monkeypatch.setattr(bulk._Wire, "send", counted)
    monkeypatch.setattr(asyncssh.SSHClientConnection, "_send_kexinit", exchanged)
    return counter


async def arrives(connector: SSHConnector, data: bytes = DATA, path: PurePosixPath = TARGET) -> None:
    assert await connector.upload(Upload(source=data, path=path))
    result = await connector.execute(Command(script=f"sha256sum <{path}"))
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("cipher", "past"),
    [
        ("aes128-gcm@openssh.com", True),
        ("aes256-gcm@openssh.com", True),
        ("chacha20-poly1305@openssh.com", False),
        ("aes128-ctr", False),
        ("aes256-ctr", False),
    ],
)
async def test_each_cipher(
    make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str], cipher: str, *, past: bool
) -> None:
    server = make_sshd(options={"Ciphers": cipher})
    await arrives(pool.connector("n1", server.settings("ops")))
    assert bool(sent["past"]) is past


@pytest.mark.parametrize("side", ["host", "here", "both"])
async def test_new_keys_half_way(
    make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str], monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    if side != "host":
        monkeypatch.setattr(asyncssh, "connect", functools.partial(asyncssh.connect, rekey_bytes=1_000_000))
    server = make_sshd(options={} if side == "here" else {"RekeyLimit": "1M"})
    connector = pool.connector("n1", server.settings())
    paths = [PurePosixPath(f"/run/file{number}") for number in range(2)]
    await asyncio.gather(*(arrives(connector, DATA[number:], path) for number, path in enumerate(paths)))
    assert sent["keys"] > 5
    assert sent["past"] > 5
    assert server.connections() == 1, "none broke on the way"


@pytest.mark.parametrize("cipher", ["aes128-gcm@openssh.com", "aes128-ctr"])
async def test_a_host_that_takes_small_packets(
    make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str], monkeypatch: pytest.MonkeyPatch, cipher: str
) -> None:
    confirmed = asyncssh.SSHClientChannel.process_open_confirmation

    def process_open_confirmation(self: Any, number: int, window: int, size: int, packet: Any) -> None:
        confirmed(self, number, window, min(size, 1021), packet)

    monkeypatch.setattr(asyncssh.SSHClientChannel, "process_open_confirmation", process_open_confirmation)
    await arrives(pool.connector("n1", make_sshd(options={"Ciphers": cipher}).settings()), DATA[:2_000_000])
    assert sent["past"] >= (400 if "gcm" in cipher else 0)


async def test_an_asyncssh_that_is_not_as_expected(
    make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_OF_CONNECTION", [*bulk._OF_CONNECTION, "_something_new"])
    await arrives(pool.connector("n1", make_sshd().settings()))
    assert not sent["past"]


async def test_through_a_bastion(make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str]) -> None:
    bastion, server = make_sshd(), make_sshd(address="127.0.0.2")
    await arrives(pool.connector("n1", server.settings(bastions=(bastion.settings(),))))
    assert sent["past"]


async def test_a_host_that_reads_nothing_for_a_while_costs_no_memory(
    make_sshd: MakeServer, pool: ConnectionPool, sent: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Any] = []
    made = bulk._Wire.__init__

    def remembered(self: Any, connection: Any) -> None:
        made(self, connection)
        wires.append(self)

    monkeypatch.setattr(bulk._Wire, "__init__", remembered)
    server = make_sshd()
    data = DATA * 4
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        connector = pool.connector("n1", server.settings(port=proxy.port, host_key=server.fingerprint))
        await connector.execute(Command(script=":"))
        sending = asyncio.ensure_future(arrives(connector, data))
        while not sent["past"]:
            await asyncio.sleep(0)
        proxy.stall()
        for _ in range(20):
            await asyncio.sleep(0.02)
        (wire,) = wires
        assert wire._connection._transport.get_write_buffer_size() < 400_000
        assert all(channel.get_write_buffer_size() < 3_000_000 for channel in wire._connection._channels.values())
        # what is asked meanwhile goes ahead of the rest of the file
        asked = asyncio.ensure_future(connector.execute(Command(script="echo there")))
        proxy.heal()
        assert (await asked).text == "there"
        await sending
