"""A task of a server, watched from here: its events go to the same observers as those of a run on this machine.

A line that breaks is taken up again where it broke; nothing is missed and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from kubexm.cli.remote.asking import Asking, ServerGone
from kubexm.cli.remote.errors import of_trouble
from kubexm.engine import Cancellation
from kubexm.errors import KubexmError, NotFoundError
from kubexm.events import Event, EventKind, Observer
from kubexm.plan import ExecutionGraph, GraphExecutionResult
from kubexm.plan.told import ToldResult, graph_of_data
from kubexm.service.reports import PlanObserver

__all__ = ["event_of", "follow", "told_by", "watched"]

_logger = logging.getLogger("kubexm")
_GIVE_UP = 900.0
_LONGEST_WAIT = 10.0
_KINDS = {kind.value: kind for kind in EventKind}


def event_of(told: dict[str, Any]) -> Event | None:
    """The event, or None if it is of a kind this version does not know."""
    kind = _KINDS.get(told["kind"])
    if kind is None:
        return None
    return Event(told["seq"], told["time"], kind, told["node"], told["host"], told["data"])


async def told_by(asking: Asking, task: str, after: int = 0) -> AsyncGenerator[tuple[str, Any]]:
    """All a server tells of a task from there to its end, over as many lines as that takes."""
    loop = asyncio.get_running_loop()
    delay, broke = 0.0, 0.0
    while True:
        try:
            async with contextlib.aclosing(asking.stream(f"tasks/{task}/events", after)) as stream:
                async for kind, data in stream:
                    if broke:
                        _logger.warning("%s answers again", asking.address.url)
                    delay = broke = 0.0
                    if kind in _KINDS:
                        after = data["seq"]
                    yield kind, data
                    if kind == "end":
                        return
            problem = "" if (await asking.get(f"tasks/{task}"))["ended"] else "the stream ended too early"
        except ServerGone as error:
            problem = error.message
        if not problem:
            return
        if not broke:
            broke = loop.time()
            _logger.warning("the line to %s broke (%s); trying again", asking.address.url, problem)
        if loop.time() - broke > _GIVE_UP:
            raise ServerGone(
                f"{asking.address.url} does not answer any more: {problem}",
                hint=f"the task goes on there if the server does: `kubexm runs logs {task} --follow`",
            )
        delay = min(2 * delay + 0.2, _LONGEST_WAIT)
        await asyncio.sleep(delay)


async def follow(
    asking: Asking, task: dict[str, Any], observers: Sequence[Observer], cancellation: Cancellation
) -> GraphExecutionResult:
    """Watches a task that makes a run to its end; what is cancelled here is cancelled there."""
    name, told = task["id"], ToldResult()
    graph: ExecutionGraph | None = None
    stopping = _Stopping(asking, name)
    cancellation.listen(lambda _: stopping.ask())
    try:
        async for kind, data in told_by(asking, name, task["seq"]):
            event = event_of(data) if kind in _KINDS else None
            if event is None:
                continue
            told.on_event(event)
            if event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
                graph = await _graph(asking, name)
                _show_plan(observers, graph)
            for observer in observers:
                observer.on_event(event)
    except asyncio.CancelledError:
        if not told.begun:  # once it has begun, whoever leaves has asked it to stop already
            stopping.ask()
        raise
    finally:
        await stopping.done()
    last = await asking.get(f"tasks/{name}")
    if graph is None:
        raise _never_began(last)
    await _add_output(asking, name, told)
    return told.result(graph)


async def watched(asking: Asking, task: dict[str, Any]) -> dict[str, Any]:
    """Waits for a task that makes no run: the task, once it has succeeded; else its error."""
    ended = False
    try:
        async for _ in told_by(asking, task["id"]):
            pass
        ended = True
    finally:
        if not ended:
            stopping = _Stopping(asking, task["id"])
            stopping.ask()
            await stopping.done()
    last: dict[str, Any] = await asking.get(f"tasks/{task['id']}")
    if last["state"] not in ("succeeded", "partial"):
        raise _never_began(last)
    return last


class _Stopping:
    """Asks the server to stop a task, as often as somebody here does, in order."""

    def __init__(self, asking: Asking, task: str) -> None:
        self._asking = asking
        self._task = task
        self._asked: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def ask(self) -> None:
        asked = asyncio.create_task(self._ask())
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)

    async def _ask(self) -> None:
        async with self._turn:
            try:
                await self._asking.post(f"tasks/{self._task}/cancel")
            except KubexmError as error:  # it may have ended by itself
                _logger.info("task %s: %s", self._task, error.message)

    async def done(self) -> None:
        """Returns when every wish was heard, or nobody listens."""
        if self._asked:
            await asyncio.wait(set(self._asked), timeout=10.0)


async def _graph(asking: Asking, task: str) -> ExecutionGraph:
    """The graph; the server has it a moment after the first event."""
    for _ in range(100):
        try:
            return graph_of_data(await asking.get(f"tasks/{task}/graph"))
        except NotFoundError:
            await asyncio.sleep(0.1)
    raise KubexmError(
        f"the server does not tell the graph of task {task}", hint="`kubexm runs show` tells how it ended"
    )


def _show_plan(observers: Sequence[Observer], graph: ExecutionGraph) -> None:
    for observer in observers:
        if isinstance(observer, PlanObserver):
            observer.planned(graph)


async def _add_output(asking: Asking, task: str, told: ToldResult) -> None:
    """What failed units printed: events do not carry it."""
    if not told.failed():
        return
    page = await asking.get(f"tasks/{task}/logs", state=["failed", "interrupted"], limit=100)
    for each in page["items"]:
        told.add_output(each["node"], each["host"], stdout=each["stdout"], stderr=each["stderr"])


def _never_began(task: dict[str, Any]) -> BaseException:
    if task["error"]:
        return of_trouble(task["error"])
    if task["state"] == "cancelled":
        return asyncio.CancelledError()
    return KubexmError(f"task {task['id']} is {task['state']}", hint=f"`kubexm runs show {task['id']}` tells more")
