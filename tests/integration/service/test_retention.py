"""Keeping only so much, while the server works: old tasks go with their runs on disk, what runs stays."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from kubexm.errors import NotFoundError, StoreError
from kubexm.plan import RunSpec
from kubexm.service.retention import Keep, keep_tidy
from kubexm.service.tasks import TaskService
from kubexm.service.wanted import Wanted
from kubexm.store.store import Store
from tests.integration.service.conftest import ended, until
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root


async def test_the_loop_forgets_what_is_too_old_and_leaves_what_runs(
    service: TaskService, store: Store, demo: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "go").touch()
    wanted = Wanted(cluster=demo, spec=RunSpec("create"))
    old = await ended(store, await service.submit(wanted, "ann"))
    place = service.run_files(old).path
    assert (place / "journal").exists()
    (root / "go").unlink()
    (root / "gone").unlink()
    (root / "waiting").unlink()
    running = await service.submit(wanted, "ann")
    await until((root / "waiting").exists)

    asked = 0
    expired = store.tasks.expired

    async def away_at_first(before: float, most: int) -> object:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreError("the database is away")
        return await expired(before, most)

    monkeypatch.setattr(store.tasks, "expired", away_at_first)
    tidying = asyncio.create_task(
        keep_tidy(
            store, lambda task: service.run_files(task).path, Keep(days=0.0), logging.getLogger("kubexm"), every=0.01
        )
    )
    try:
        await until(lambda: not place.exists())
        await until(lambda: asked > 3)
        with pytest.raises(NotFoundError):
            await store.tasks.get(old.id)
        assert await store.runs.events(old.n) == []
        assert service.run_files(running).journal.exists()
        assert (await store.tasks.get(running.id)).active, "what runs is nobody's to forget"
    finally:
        tidying.cancel()
        await asyncio.gather(tidying, return_exceptions=True)
    (root / "go").touch()
    assert (await ended(store, running)).state == "succeeded"
