"""Signals, as a run understands them. Real signals, sent to this process."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kubexm.cli.interrupts import Interrupts
from kubexm.engine import Cancellation
from kubexm.events import Event, EventKind

STARTED = Event(1, 0.0, EventKind.RUN_STARTED)


async def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.01)


async def test_once_asks_and_twice_stops() -> None:
    cancellation, said = Cancellation(), list[str]()
    interrupts = Interrupts(cancellation, said.append)
    with interrupts.caught():
        interrupts.on_event(STARTED)
        await send(signal.SIGINT)
        assert cancellation.level == 1
        assert said == ["finishing what runs, starting nothing; press Ctrl-C again to stop now"]
        await send(signal.SIGINT)
        assert cancellation.level == 2
        assert said[1].startswith("stopping now")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_termination_stops_at_once(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # also if the tests themselves were started by nohup
    cancellation, said = Cancellation(), list[str]()
    interrupts = Interrupts(cancellation, said.append)
    with interrupts.caught():
        interrupts.on_event(STARTED)
        await send(number)
    assert cancellation.level == 2
    assert len(said) == 1


async def test_before_the_run_has_begun_the_command_just_ends() -> None:
    cancellation, said = Cancellation(), list[str]()

    async def connecting() -> None:
        with Interrupts(cancellation, said.append).caught():
            await send(signal.SIGINT)
            await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(connecting())
    assert cancellation.level == 0
    assert said == []


async def test_a_third_time_leaves() -> None:
    cancellation, said = Cancellation(), list[str]()

    async def hanging() -> None:
        interrupts = Interrupts(cancellation, said.append)
        with interrupts.caught():
            interrupts.on_event(STARTED)
            for _ in range(3):
                await send(signal.SIGINT)
            await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(hanging())
    assert cancellation.level == 2
    assert said[2].startswith("leaving")


async def test_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts(Cancellation(), print).caught():
        pass
    assert signal.getsignal(signal.SIGTERM) == before


async def test_a_hangup_is_ignored_under_nohup() -> None:
    cancellation = Cancellation()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupts = Interrupts(cancellation, print)
        with interrupts.caught():
            interrupts.on_event(STARTED)
            await send(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert cancellation.level == 0
