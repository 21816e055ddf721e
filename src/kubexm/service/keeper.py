"""Keeps the store in line with the journals, beside the runs and never in their way.

Tails the journal of every task that is not wholly in the store. While the database is away it waits and tries again;
afterwards it goes on behind the last event the store has.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path

from kubexm.errors import JournalError, StoreError
from kubexm.store.store import Store
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task

__all__ = ["Keeper"]

_EVERY = 0.2
_AWAY = 5.0
_AT_ONCE = 5  # batches of one run before the others get their turn


class Keeper:
    """Follows journals into the store."""

    def __init__(self, store: Store, logger: logging.Logger) -> None:
        self._store = store
        self._logger = logger
        self._tails: dict[str, tuple[Task, Path, JournalTail]] = {}
        self._graphs: set[str] = set()
        self._loop: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.behind = 0.0
        """How long the database has been away, in seconds."""

    def start(self) -> None:
        """Begins to follow."""
        self._loop = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Ends; what is not in the store yet is taken the next time."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    def watch(self, task: Task, run: Path) -> None:
        """Follows the journal in this directory from now on."""
        if task.id not in self._tails:
            self._tails[task.id] = task, run, JournalTail(self._store.runs, task.n, run / "journal")

    async def finish(self, task: Task) -> None:
        """Takes what is left of the task's journal, however long the database stays away."""
        delay = 0.1
        while task.id in self._tails:
            try:
                async with self._lock:
                    if task.id in self._tails:
                        await self._take(task.id, None)
                        self._tails.pop(task.id, None)
                        self._graphs.discard(task.id)
            except StoreError as error:
                self._logger.warning("task %s waits for the store: %s", task.id, error.message)
                await asyncio.sleep(delay)
                delay = min(2 * delay, _AWAY)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while True:
            await asyncio.sleep(_EVERY if away_since is None else _AWAY)
            for name in list(self._tails):
                try:
                    async with self._lock:
                        await self._take(name, _AT_ONCE)
                except StoreError as error:
                    if away_since is None:
                        away_since = loop.time()
                        self._logger.warning("the store is away, runs go on without it: %s", error.message)
                    self.behind = loop.time() - away_since
                    break
                else:
                    if away_since is not None:
                        self._logger.warning("the store is back after %.0f s, and catches up", loop.time() - away_since)
                    away_since, self.behind = None, 0.0

    async def _take(self, name: str, batches: int | None) -> None:
        found = self._tails.get(name)
        if found is None:
            return
        task, run, tail = found
        try:
            await tail.catch_up(batches=batches)
            await self._keep_graph(task, run)
        except JournalError as error:  # one journal that cannot be read does not keep the others away
            self._logger.warning("task %s is not wholly in the store: %s", name, error.message)
            del self._tails[name]

    async def _keep_graph(self, task: Task, run: Path) -> None:
        path = run / "graph.json"
        if task.id not in self._graphs and path.exists():
            text = path.read_bytes()
            await self._store.runs.put_graph(hashlib.sha256(text).hexdigest(), text)
            self._graphs.add(task.id)
