"""So many at a time, the most urgent first. Must not know what is waited for."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turn", "Turns"]


class Turn:
    """Somebody's turn, which may be given up for a while."""

    def __init__(self, turns: Turns, urgency: float) -> None:
        self._turns = turns
        self._urgency = urgency
        self._has = False

    @property
    def outdone(self) -> bool:
        """True if somebody waits who is more urgent."""
        return self._turns.most_urgent() > self._urgency

    async def take(self) -> None:
        """Waits until it has a turn."""
        if not self._has:
            await self._turns.take(self._urgency)
            self._has = True

    def give(self) -> None:
        """Gives the turn back, if it has one."""
        if self._has:
            self._has = False
            self._turns.give()


class Turns:
    """Lets some at once; of those that wait, the most urgent is next, and of equals the one who came first."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._came = 0

    def widen(self) -> None:
        """Lets one more at once."""
        self.give()

    @asynccontextmanager
    async def turn(self, urgency: float = 0.0) -> AsyncIterator[Turn]:
        """Waits for a turn, and has it until the block ends."""
        turn = Turn(self, urgency)
        await turn.take()
        try:
            yield turn
        finally:
            turn.give()

    def most_urgent(self) -> float:
        """How urgent the most urgent is that waits."""
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return -self._waiting[0][0] if self._waiting else -math.inf

    async def take(self, urgency: float) -> None:
        """Waits for a turn."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(urgency)

    async def _wait(self, urgency: float) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._came += 1
        heapq.heappush(self._waiting, (-urgency, self._came, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.give()  # the turn came and nobody takes it
            raise

    def give(self) -> None:
        """Gives a turn back: to the most urgent that waits."""
        while self._waiting:
            _, _, first = heapq.heappop(self._waiting)
            if not first.done():
                first.set_result(None)
                return
        self._free += 1
