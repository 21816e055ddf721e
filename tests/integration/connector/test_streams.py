"""Streams through real hosts: over SSH as root, over SSH with sudo, and locally."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import PurePosixPath

import pytest

from kubexm.connector import ByteStream, Command, ConnectionPool
from kubexm.errors import FencedError, ForwardingDisabled, StreamError
from kubexm.testing import SshServer
from tests.integration.conftest import MakeServer

from .conftest import Way

LINES = 200


class Echo:
    """Answers each line with the same line in capitals, and closes after `bye`."""

    def __init__(self) -> None:
        self.port = 0
        self.served = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served += 1
        try:
            while (line := await reader.readline()) and line != b"bye\n":
                writer.write(line.upper())
                await writer.drain()
        finally:
            writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()


async def ended(stream: ByteStream) -> None:
    """Returns once the stream brings nothing more, whether it ended or broke."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(30):
            while await stream.receive():
                pass


async def test_bytes_arrive_whole_in_both_directions_until_the_server_closes(way: Way, echo: Echo) -> None:
    stream = await way.connector.streams.open("127.0.0.1", echo.port)
    sent = b"".join(f"{number:04} line\n".encode() for number in range(LINES))
    await stream.send(sent)
    found = b""
    while len(found) < len(sent):
        found += await stream.receive()
    assert found == sent.upper()
    await stream.send(b"bye\n")
    assert await stream.receive() == b""
    await stream.aclose()
    await stream.aclose()


async def test_each_exchange_counts_as_a_round_trip_and_so_does_opening(way: Way, echo: Echo) -> None:
    await way.shell(":")
    before = way.connector.round_trips
    streams = way.connector.streams
    stream = await streams.open("127.0.0.1", echo.port)
    await stream.send(b"hello\n")
    assert await stream.receive() == b"HELLO\n"
    assert way.connector.round_trips - before == 2, "opening it, and a handshake"

    async def ask(*, changes: bool = False) -> None:
        async with streams.exchange("ask", changes=changes):
            await asyncio.sleep(0.01)

    for _ in range(3):
        await ask()
    assert way.connector.round_trips - before == 5
    await asyncio.gather(*(ask() for _ in range(30)))
    assert way.connector.round_trips - before == 6, "reads of the same moment travel together"
    await asyncio.gather(*(ask(changes=True) for _ in range(3)))
    assert way.connector.round_trips - before == 9, "changes are counted one by one"
    await stream.aclose()


async def test_a_port_where_nobody_listens_is_named(way: Way, echo: Echo) -> None:
    free = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    with pytest.raises(StreamError, match=f"127.0.0.1:{port}") as caught:
        await way.connector.streams.open("127.0.0.1", port)
    assert not isinstance(caught.value, ForwardingDisabled)
    assert caught.value.host == way.connector.host
    assert "ss -ltn" in caught.value.hint


async def test_a_change_over_a_stream_is_refused_once_a_newer_run_holds_the_lease(own_way: Way) -> None:
    way, lease = own_way, own_way.directory / "lease"
    await way.shell_of_a_change(f"echo 5 other >{lease}")
    way.connector.fence(PurePosixPath(lease), 5)
    async with way.connector.streams.exchange("apply", changes=True):
        pass
    way.connector.fence(PurePosixPath(lease), 4)
    async with way.connector.streams.exchange("look"):
        pass
    with pytest.raises(FencedError, match="token 5"):
        async with way.connector.streams.exchange("apply", changes=True):
            raise AssertionError("the change was let through")


async def test_closing_the_connector_closes_attachments_and_streams(way: Way, echo: Echo) -> None:
    class Kept:
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    kept = way.connector.streams.attached(Kept, Kept)
    assert way.connector.streams.attached(Kept, Kept) is kept
    stream = await way.connector.streams.open("127.0.0.1", echo.port)
    await way.connector.close()
    assert kept.closed == 1
    await ended(stream)


@pytest.mark.parametrize("option", [("AllowTcpForwarding", "no"), ("DisableForwarding", "yes"), ("PermitOpen", "none")])
async def test_a_host_that_forbids_forwarding_says_so_and_still_runs_commands(
    make_sshd: MakeServer, pool: ConnectionPool, echo: Echo, option: tuple[str, str]
) -> None:
    connector = pool.connector("strict", make_sshd(options=dict([option])).settings())
    with pytest.raises(ForwardingDisabled, match="refuses to forward") as caught:
        await connector.streams.open("127.0.0.1", echo.port)
    assert "AllowTcpForwarding" in caught.value.hint
    assert (await connector.execute(Command(script="echo here"))).text == "here"
    assert not echo.served


async def test_a_stream_opens_again_after_the_connection_broke(
    pool: ConnectionPool, sshd: SshServer, echo: Echo
) -> None:
    connector = pool.connector("n1", sshd.settings())
    stream = await connector.streams.open("127.0.0.1", echo.port)
    sshd.cut()
    await ended(stream)
    again = await connector.streams.open("127.0.0.1", echo.port)
    await again.send(b"hello\n")
    assert await again.receive() == b"HELLO\n"


async def test_a_stream_nobody_waits_for_any_more_is_closed(pool: ConnectionPool, sshd: SshServer, echo: Echo) -> None:
    connector = pool.connector("n1", sshd.settings())
    await connector.connect()
    opening = asyncio.ensure_future(connector.streams.open("127.0.0.1", echo.port))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    stream = await connector.streams.open("127.0.0.1", echo.port)
    await stream.send(b"still\n")
    assert await stream.receive() == b"STILL\n"
