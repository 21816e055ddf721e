"""Requests to a server that is away for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kubexm.cli.remote.address import ServerAddress
from kubexm.cli.remote.asking import Asking, ServerGone
from kubexm.errors import KubexmError
from kubexm.redact import Secret

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
AWAY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Server:
    """Gives the answers it has, in turn; the last one again and again. An empty one is a connection that breaks."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        writer.close()

    def keys(self) -> set[bytes]:
        lines = [line for head in self.heads for line in head.splitlines()]
        return {line for line in lines if line.lower().startswith(b"idempotency-key")}


@asynccontextmanager
async def asking(server: Server, try_for: float) -> AsyncIterator[Asking]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    address = ServerAddress(url=url, token=Secret("kx_x"), trust=None)
    async with listening, Asking(address, try_for=try_for, pause=0.01) as found:
        yield found


async def test_a_request_outlasts_a_restart_says_so_once_and_is_done_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(b"", b"", AWAY, b"", b"", OK)  # away for longer than a few tries in a row
    with caplog.at_level(logging.WARNING, logger="kubexm"):
        async with asking(server, 300.0) as client:
            assert await client.post("tasks") == {}
    assert len(server.heads) == 6
    assert len(server.keys()) == 1
    messages = [record.message for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].endswith("; trying again for up to 300 s")
    assert messages[1].endswith(" answers again")


async def test_after_its_time_it_gives_up_and_names_the_cause() -> None:
    async with asking(Server(b""), 0.1) as client:
        with pytest.raises(ServerGone, match=r"does not answer after 0\.1 s: ") as caught:
            await client.get("tasks")
    assert "kubexm serve" in caught.value.hint


async def test_a_server_that_stays_busy_is_quoted() -> None:
    async with asking(Server(AWAY), 0.1) as client:
        with pytest.raises(KubexmError) as caught:
            await client.get("tasks")
    assert not isinstance(caught.value, ServerGone)
