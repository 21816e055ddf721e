"""Connections that are idle, slow or too many: they are closed, and the server goes on answering."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from kubexm.rest.gate import ConnectionLimits
from kubexm.rest.state import ServerSettings
from tests.integration.rest.conftest import Running, StartServer

IDLE = 140


def test_idle_connections_do_not_make_a_server_unreachable(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:  # both at once: each closes idle connections after ten seconds
        plain = _crowded(stack, tmp_path / "plain")
        secure = _crowded(stack, tmp_path / "secure", "--tls-self-signed")
        for log, held in (plain, secure):
            for each in held:  # all of them are closed by the server
                each.settimeout(120)
                with contextlib.suppress(ConnectionResetError):
                    assert each.recv(1) == b""
            assert len(log.read_text()) < 5000, "the log does not grow with them"


def _crowded(stack: contextlib.ExitStack, directory: Path, *more: str) -> tuple[Path, list[socket.socket]]:
    """A server with few descriptors that answers although it has more idle connections than that; and those."""
    directory.mkdir()
    log, words = directory / "log", ["serve", "--data-dir", str(directory / "data"), "--listen", "127.0.0.1:0", *more]
    with log.open("wb") as file:
        command = ["prlimit", "--nofile=128:128", sys.executable, "-m", "kubexm", *words]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    stack.callback(process.wait)
    stack.callback(process.kill)
    deadline = time.monotonic() + 120
    while (shown := re.search(r"serves at (\S+)[\s\S]*token:", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parts = urlsplit(shown[1])
    trust = ssl.create_default_context(cafile=str(directory / "data" / "tls" / "cert.pem")) if more else True
    place = (parts.hostname, parts.port)
    held = [stack.enter_context(socket.create_connection(place, timeout=60)) for _ in range(IDLE)]
    for _ in range(3):
        assert httpx.get(f"{shown[1]}/api/v1/health", timeout=60, verify=trust).status_code == 200
    return log, held


def test_the_soft_limit_on_descriptors_is_raised(tmp_path: Path) -> None:
    script = "from kubexm.rest.gate import raise_descriptor_limit; print(raise_descriptor_limit())"
    command = ["prlimit", "--nofile=64:256", sys.executable, "-c", script]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "256\n"


class TestLimits:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(body_quiet=2.0, body_within=6.0)

    @pytest.fixture
    async def running(self, start: StartServer, places_url: str) -> Running:
        return await start(places_url, limits=ConnectionLimits(head_within=3.0))

    async def _open(self, running: Running, sent: bytes = b"", near: str = "127.0.0.1") -> asyncio.StreamReader:
        parts = urlsplit(running.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(near, 0))
        running.closing.append(writer)
        writer.write(sent)
        return reader

    async def _ends(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(60):
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""

    async def test_a_head_that_does_not_end_is_cut_off_even_if_it_goes_on(self, running: Running) -> None:
        reader = await self._open(running, b"GET /api/v1/health HTTP/1.1\r\n")
        trickle = asyncio.create_task(self._trickle(running.closing[-1], b"X-A: b\r\n"))
        assert await self._ends(reader) == b""
        trickle.cancel()

    async def test_so_is_one_that_follows_an_answered_request(self, running: Running) -> None:
        whole = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
        reader = await self._open(running, whole)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        running.closing[-1].write(whole[:20])
        assert b"HTTP/1.1" not in await self._ends(reader)

    @pytest.mark.parametrize("trickles", [False, True])
    async def test_a_body_that_does_not_arrive_is_answered_with_408(self, running: Running, trickles: bool) -> None:
        head = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n"
        reader = await self._open(running, head + b"\r\n{")
        trickle = asyncio.create_task(self._trickle(running.closing[-1], b" ")) if trickles else None
        assert (await self._ends(reader)).startswith(b"HTTP/1.1 408 ")
        if trickle is not None:
            trickle.cancel()

    async def test_the_longest_idle_makes_room_and_busy_ones_stay(self, start: StartServer, places_url: str) -> None:
        running = await start(places_url, limits=ConnectionLimits(most=8, each=6, head_within=600.0))
        whole = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
        busy = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
        first = await self._open(running, busy)
        idle = [await self._open(running, whole) for _ in range(5)]
        for reader in idle:
            await reader.readuntil(b"\r\n\r\n")
        seventh = await self._open(running, whole)
        assert (await seventh.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"), "the same address still gets in"
        await self._ends(idle[0])
        assert not idle[1].at_eof()
        assert not first.at_eof(), "what is busy stays"
        other = await self._open(running, whole, near="127.0.0.2")
        assert (await other.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    async def _trickle(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        for _ in range(600):
            writer.write(piece)
            await asyncio.sleep(0.1)


async def test_without_descriptors_connections_are_closed_and_not_logged_one_by_one(
    start: StartServer, places_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running = await start(places_url, limits=ConnectionLimits(head_within=600.0))  # nothing is closed for being late
    parts = urlsplit(running.url)
    real, calls, turned_away = socket.socket.accept, 0, 0

    def without(self: socket.socket) -> tuple[socket.socket, object]:
        """As the kernel does it: EMFILE, whether or not somebody is waiting, until the gate gives up its spare one."""
        nonlocal calls, turned_away
        calls += 1
        if calls % 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        accepted = real(self)
        turned_away += 1
        return accepted

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "accept", without)
        for _ in range(10):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            assert await reader.read() == b""
            writer.close()
        assert turned_away == 10
        assert calls <= 50, "it does not try again and again when nobody is waiting"
    assert (await running.client("").get("/health")).status_code == 200
    assert caplog.text.count("no file descriptors are left") == 1
