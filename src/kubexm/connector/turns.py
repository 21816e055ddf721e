"""So many at a time, the most urgent first. Must not know what is waited for."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """Lets some at once; of those that wait, the most urgent is next, and of equals the one who came first."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._came = 0

    def widen(self) -> None:
        """Lets one more at once."""
        self._next()

    @asynccontextmanager
    async def turn(self, urgency: float = 0.0) -> AsyncIterator[None]:
        """Waits for a turn, and has it until the block ends."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(urgency)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, urgency: float) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._came += 1
        heapq.heappush(self._waiting, (-urgency, self._came, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next()  # the turn came and nobody takes it
            raise

    def _next(self) -> None:
        while self._waiting:
            _, _, first = heapq.heappop(self._waiting)
            if not first.done():
                first.set_result(None)
                return
        self._free += 1
