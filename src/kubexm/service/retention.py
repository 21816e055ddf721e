"""Keeping only so much: tasks that are too old, or beyond what may be kept, go with their runs on disk."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import StoreError
from kubexm.store.store import Store
from kubexm.store.tasks import Task

__all__ = ["Keep", "forget_old", "keep_tidy"]

_EVERY = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long, and how much."""

    days: float = 90.0
    bytes: int = 10 * 2**30


async def forget_old(store: Store, place: Callable[[Task], Path], keep: Keep) -> list[str]:
    """Forgets what is too old or too much: the files first, so that nothing takes them in again; says which tasks."""
    gone = []
    for task in await store.tasks.expired(time.time() - keep.days * 86400, keep.bytes):
        await asyncio.to_thread(shutil.rmtree, place(task), ignore_errors=True)
        await store.tasks.forget(task)
        gone.append(task.id)
    return gone


async def keep_tidy(
    store: Store, place: Callable[[Task], Path], keep: Keep, logger: logging.Logger, *, every: float = _EVERY
) -> None:
    """Does so again and again."""
    while True:
        try:
            gone = await forget_old(store, place, keep)
            if gone:
                logger.info("%d tasks were too old, or too much, and are forgotten", len(gone))
        except StoreError as error:
            logger.warning("old tasks are kept for now: %s", error.message)
        await asyncio.sleep(every)
