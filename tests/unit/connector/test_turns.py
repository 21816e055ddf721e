"""Turns: never more than so many at once, the most urgent next, and none lost when somebody gives up waiting."""

from __future__ import annotations

import asyncio

import pytest

from kubexm.connector.turns import Turns


async def test_the_most_urgent_is_next_and_equals_keep_their_order() -> None:
    turns, went, now = Turns(2), [], 0

    async def go(name: str, urgency: float) -> None:
        nonlocal now
        async with turns.turn(urgency):
            now += 1
            assert now <= 2
            went.append(name)
            await asyncio.sleep(0)
            now -= 1

    wanted = {"a": 0.0, "b": 0.0, "low1": 1.0, "high": 9.0, "low2": 1.0, "middle": 5.0}
    await asyncio.gather(*(go(name, urgency) for name, urgency in wanted.items()))
    assert went == ["a", "b", "high", "middle", "low1", "low2"]


async def test_who_gives_up_waiting_costs_nobody_a_turn() -> None:
    turns, release, went = Turns(1), asyncio.Event(), []

    async def hold() -> None:
        async with turns.turn():
            await release.wait()
        late.cancel()  # its turn has just come

    async def go(name: str) -> None:
        async with turns.turn():
            went.append(name)

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    gone, late, patient = (asyncio.create_task(go(name)) for name in ("gone", "late", "patient"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    release.set()
    await holder
    await patient
    assert went == ["patient"]
    for task in (gone, late):
        with pytest.raises(asyncio.CancelledError):
            await task
    await go("after")
    assert went[-1] == "after"


async def test_a_turn_that_ends_in_an_error_is_given_back() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError, match="x"):
        async with turns.turn():
            raise ValueError("x")
    async with asyncio.timeout(5):
        async with turns.turn():
            pass


async def test_one_more_at_once_goes_to_who_waits_or_to_who_comes() -> None:
    turns, release, went = Turns(1), asyncio.Event(), []

    async def go(name: str) -> None:
        async with turns.turn():
            went.append(name)
            await release.wait()

    tasks = [asyncio.create_task(go(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    assert went == ["first"]
    turns.widen()
    turns.widen()
    tasks.append(asyncio.create_task(go("third")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(went) == ["first", "second", "third"]
    release.set()
    await asyncio.gather(*tasks)


async def test_who_has_a_turn_can_let_the_more_urgent_go_first() -> None:
    turns, went = Turns(1), []

    async def urgent() -> None:
        async with turns.turn(5.0):
            went.append("urgent")

    async with turns.turn(1.0) as mine:
        assert not mine.outdone
        waits = asyncio.create_task(urgent())
        await asyncio.sleep(0)
        assert mine.outdone
        mine.give()
        await mine.take()
        went.append("mine")
        waits = asyncio.create_task(urgent())
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.sleep(0)
        assert not mine.outdone, "who gave up waiting is not more urgent"
    assert went == ["urgent", "mine"]
    await urgent()


async def test_a_turn_that_was_given_up_is_not_given_back_twice() -> None:
    turns, release = Turns(1), asyncio.Event()

    async def hold() -> None:
        async with turns.turn():
            await release.wait()

    async def aside() -> None:
        async with turns.turn() as mine:
            mine.give()
            other = asyncio.create_task(hold())
            await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await mine.take()
            release.set()
            await other

    await aside()
    first = asyncio.create_task(hold())
    release.clear()
    await asyncio.sleep(0)
    second = asyncio.create_task(turns.take(0.0))
    await asyncio.sleep(0)
    assert not second.done(), "still one at a time"
    release.set()
    await asyncio.gather(first, second)
