"""Time limits: armed only for what waits, exact about whose cancellation it was."""

from __future__ import annotations

import asyncio

import pytest

from kubexm.engine.bounded import within


async def answer(value: int) -> int:
    return value


async def late(value: int) -> int:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return value


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_gives_the_result_of_what_does_not_wait_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_timer(*_: object) -> None:
        raise AssertionError("a timer was armed")

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", no_timer)
    assert await within(5, answer(3)) == 3


async def test_gives_the_result_of_what_waits() -> None:
    assert await within(5, late(4)) == 4


async def test_what_takes_too_long_is_cancelled_and_told() -> None:
    stopped = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    with pytest.raises(TimeoutError):
        await within(0.01, work())
    assert stopped.is_set()
    await asyncio.sleep(0)  # the task itself was not left cancelled


async def test_errors_pass_through() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await within(5, broken())


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        await within(60, for_ever())

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_work_may_use_time_limits_of_its_own() -> None:
    async def work() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await for_ever()
        return "went on"

    assert await within(60, work()) == "went on"
