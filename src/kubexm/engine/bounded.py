"""Time limits that cost nothing until they matter: the clock starts when an awaitable first waits for something.

A step that only computes, or whose answer is there already, arms no timer. `asyncio.timeout` arms one always, which is
most of what an engine of a hundred thousand short units would do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["within"]

T = TypeVar("T")


class within(Generic[T]):  # noqa: N801 - reads as `await within(seconds, work)`
    """Awaits the work; TimeoutError, with the work cancelled, if it waits longer than this."""

    __slots__ = ("_expired", "_seconds", "_work")

    def __init__(self, seconds: float, work: Coroutine[Any, Any, T]) -> None:
        self._seconds = seconds
        self._work = work
        self._expired = False

    def __await__(self) -> Generator[Any, Any, T]:
        inner = self._work.__await__()
        try:
            waited_for = next(inner)
        except StopIteration as done:
            result: T = done.value
            return result
        task = asyncio.current_task()
        assert task is not None
        timer = asyncio.get_running_loop().call_later(self._seconds, self._expire, task)
        try:
            while True:
                try:
                    answer = yield waited_for
                except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the work
                    waited_for = inner.throw(error)
                else:
                    waited_for = inner.send(answer)
        except StopIteration as done:
            result = done.value
            return result
        except asyncio.CancelledError:
            if self._expired and task.uncancel() <= 0:
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def _expire(self, task: asyncio.Task[Any]) -> None:
        self._expired = True
        task.cancel()
