"""Requests that do not fit: what is answered to them, what is not revealed, and what they cannot fill."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kubexm.rest.state import ServerSettings
from kubexm.web import page
from tests.integration.rest.conftest import Running, StartServer
from tests.integration.service.work import spec
from tests.postgres import PostgresServer, why_no_postgres


async def _raw(running: Running, request: bytes) -> bytes:
    """The whole answer to bytes on a connection of their own."""
    parts = urlsplit(running.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/clusters", "GET, POST"),
        ("PATCH", "/clusters/demo/spec", "GET, PUT"),
        ("GET", "/clusters/demo/create", "POST"),
        ("DELETE", "/validate", "POST"),
        ("POST", "/session/", None),
        ("POST", "/nothing", None),
        ("GET", "/nothing", None),
    ],
)
@pytest.mark.parametrize("site", [None, page()], ids=["alone", "with the page"])
async def test_allow_lists_the_methods_of_an_address(
    start: StartServer, places_url: str, method: str, path: str, allowed: str | None, site: object
) -> None:
    running = await start(places_url, site=site)
    answer = await running.client().request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (404 if allowed is None else 405, allowed)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(running: Running) -> None:
    head = "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    second = "GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = await _raw(running, f"{head}{lengths}{second}".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1, "what follows is not taken for a request"


class TestAudit:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(failures=5, burst=1000, rate=1000.0)

    async def test_nobody_fills_it_without_a_token(self, running: Running) -> None:
        admin, nobody = running.client(), running.client("")
        for _ in range(50):
            assert (await nobody.post("/session", json={})).status_code == 422
            assert (await nobody.post("/session", content=b"{")).status_code == 422
        assert (await admin.get("/audit")).json()["items"] == []
        codes = [(await nobody.post("/session", json={"token": "kx_wrong"})).status_code for _ in range(20)]
        assert codes[:5] == [401] * 5
        assert 429 in codes
        entries = (await admin.get("/audit")).json()["items"]
        assert {(each["actor"], each["outcome"]) for each in entries} == {("anonymous", "401")}
        assert len(entries) <= 6


async def test_a_secret_says_what_is_wrong_with_it(running: Running, root: Path) -> None:
    for value, problem in (("a\0b", "NUL character"), ("", "is empty"), ("x" * 70_000, "too large")):
        body = {"spec": spec(root), "secrets": {"login": value}}
        answer = await running.client().post("/clusters", json=body)
        assert answer.status_code == 422
        assert problem in answer.json()["detail"]


async def test_a_missing_database_is_reported_without_its_address(
    start: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    if reason := why_no_postgres():
        pytest.skip(reason)
    with PostgresServer() as database:
        url = database.database()
        running = await start(url)
        assert (await running.client().get("/clusters")).status_code == 200
    user, port = urlsplit(url).username, urlsplit(url).port
    with caplog.at_level(logging.WARNING, "kubexm"):
        for who in ("", "admin"):
            client = running.client(who)
            answers = [
                await client.get("/clusters"),
                await client.post("/session", json={"token": running.tokens["admin"]}),
            ]
            for answer in answers:
                if answer.status_code == 401:  # no token, so no database was asked
                    continue
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) > 0
                assert str(port) not in answer.text
                assert str(user) not in answer.json()["detail"].split()
                assert "postgresql" not in answer.text
    assert str(port) in caplog.text, "whoever runs the server finds it in the log"
    ready = await running.client("").get("/ready")
    assert (ready.status_code, ready.json()["database"]) == (503, "away")
