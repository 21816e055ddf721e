"""A service with workers that take this machine for every host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kubexm.pipeline import PIPELINES
from kubexm.redact import Secret
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.tasks import TaskOptions, TaskService
from kubexm.store.store import Store
from kubexm.store.tasks import Task, TaskState
from tests.integration.service.work import PLACES, WORKER, spec

Until = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(tmp_path / "data")
    found.prepare()
    return found


@pytest.fixture(autouse=True)
def pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in PLACES.items():
        monkeypatch.setitem(PIPELINES, name, place)


@pytest.fixture
async def store(places: Places, migrated: dict[str, str]) -> AsyncIterator[Store]:
    opened = await Store.open(places.database, places.key)
    yield opened
    await opened.close()


@pytest.fixture
def options(tmp_path: Path) -> TaskOptions:
    return TaskOptions(parallel=2, worker=(*WORKER, str(tmp_path / "hosts")))


@pytest.fixture
async def registry(store: Store, places: Places) -> AsyncIterator[Registry]:
    made = Registry(store, places)
    yield made
    await made.close()


@pytest.fixture
async def service(store: Store, places: Places, options: TaskOptions, registry: Registry) -> AsyncIterator[TaskService]:
    made = TaskService(store, places, options, registry)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def demo(registry: Registry, root: Path) -> str:
    """A registered cluster."""
    made = await registry.register(spec(root), by="ann", secrets={"login": Secret("hush")})
    return made.name


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for something that is coming about elsewhere."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def ended(store: Store, task: Task | str, seconds: float = 60.0) -> Task:
    """The task, once it has ended."""
    name = task if isinstance(task, str) else task.id
    async with asyncio.timeout(seconds):
        while (found := await store.tasks.get(name)).state in (TaskState.QUEUED, TaskState.RUNNING):
            await asyncio.sleep(0.02)
    return found
