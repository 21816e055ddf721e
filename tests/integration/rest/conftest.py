"""A server that listens, with workers that take this machine for every host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from kubexm.pipeline import PIPELINES
from kubexm.rest.app import create_app
from kubexm.rest.gate import ConnectionLimits
from kubexm.rest.serve import listen, serve
from kubexm.rest.state import Server, ServerSettings
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.tasks import TaskOptions, TaskService
from kubexm.store.store import Store
from tests.integration.service.work import PLACES, WORKER, spec


@dataclass
class Running:
    """A server, and ways to ask it."""

    url: str
    server: Server
    tokens: dict[str, str]
    clients: list[httpx.AsyncClient] = field(default_factory=list)
    closing: list[asyncio.StreamWriter] = field(default_factory=list)
    """What is closed when the test is over."""

    def client(self, who: str = "admin", **options: Any) -> httpx.AsyncClient:
        """Asks with one of the tokens, or with none."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        made = httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=60.0, **options)
        self.clients.append(made)
        return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(burst=100_000, rate=100_000.0, failures=100_000)


StartServer = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start(
    tmp_path: Path, settings: ServerSettings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartServer]:
    """Starts a server on a database."""
    for name, place in PLACES.items():
        monkeypatch.setitem(PIPELINES, name, place)
    places = Places(tmp_path / "data")
    places.prepare()
    opened: list[tuple[asyncio.Task[None], asyncio.Event, Any, Store, Running]] = []

    async def begin(url: str, *, site: ASGIApp | None = None, limits: ConnectionLimits | None = None) -> Running:
        store = await Store.open(url, places.key)
        registry = Registry(store, places)
        options = TaskOptions(parallel=3, worker=(*WORKER, str(tmp_path / "hosts")))
        tasks = TaskService(store, places, options, registry)
        server = Server(store=store, places=places, tasks=tasks, registry=registry, settings=settings)
        tokens = {}
        for name, grants in {
            "admin": {"*": "admin"},
            "operator": {"*": "operator"},
            "viewer": {"*": "viewer"},
            "demo-operator": {"demo": "operator"},
            "demo-viewer": {"demo": "viewer"},
            "other-admin": {"other": "admin"},
        }.items():
            tokens[name] = (await store.tokens.create(name, grants, by="test"))[1].reveal()
        listening = listen("127.0.0.1:0", None, None, limits)
        ready, until = asyncio.Event(), asyncio.Event()
        work = asyncio.create_task(serve(create_app(server, site=site), listening, ready=ready.set, until=until))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        running = Running(listening.url, server, tokens)
        opened.append((work, until, listening, store, running))
        return running

    yield begin
    for work, until, listening, store, running in opened:
        for client in running.clients:
            await client.aclose()
        for writer in running.closing:
            writer.close()
        until.set()
        await asyncio.wait((work,), timeout=30)
        listening.socket.close()
        await store.close()


@pytest.fixture
async def running(start: StartServer, places_url: str) -> Running:
    return await start(places_url)


@pytest.fixture
def places_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'data' / 'kubexm.db'}"


@pytest.fixture
async def demo(running: Running, root: Path) -> str:
    """A registered cluster."""
    return await registered(running, root)


async def registered(running: Running, root: Path, name: str = "demo", **more: Any) -> str:
    body = {"spec": spec(root, name=name, **more), "secrets": {"login": "hush-hush"}}
    answer = await running.client().post("/clusters", json=body)
    assert answer.status_code == 201, answer.text
    return name


async def ended(client: httpx.AsyncClient, task: str, seconds: float = 60.0) -> dict[str, Any]:
    """The task, once it has ended."""
    async with asyncio.timeout(seconds):
        while True:
            found: dict[str, Any] = (await client.get(f"/tasks/{task}")).json()
            if found["state"] not in ("queued", "running"):
                return found
            await asyncio.sleep(0.05)


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for something that is coming about elsewhere."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
