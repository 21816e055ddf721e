"""Time limits that cost nothing until they matter: the clock starts when an awaitable first waits for something.

A step that only computes, or whose answer is there already, arms no timer. `asyncio.timeout` arms one always, which is
most of what an engine of a hundred thousand short units would do.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

__all__ = ["within"]

T = TypeVar("T")


@types.coroutine
def within(seconds: float, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Awaits the work; TimeoutError, with the work cancelled, if it waits longer than this."""
    try:
        waited_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    task = asyncio.current_task()
    assert task is not None
    limit = _Limit(task)
    timer = asyncio.get_running_loop().call_later(seconds, limit.expire)
    try:
        while True:
            try:
                answer = yield waited_for
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the work
                waited_for = work.throw(error)
            else:
                waited_for = work.send(answer)
    except StopIteration as done:
        result = done.value
        return result
    except asyncio.CancelledError:
        if limit.expired and task.uncancel() <= 0:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


class _Limit:
    """Cancels the task when its time is up, and remembers that it was this."""

    __slots__ = ("_task", "expired")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.expired = False

    def expire(self) -> None:
        self.expired = True
        self._task.cancel()
