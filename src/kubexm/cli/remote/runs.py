"""Tasks of a server, as runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kubexm import config
from kubexm.cli.remote.asking import Asking
from kubexm.cli.remote.following import event_of, told_by
from kubexm.cli.remote.service import RemoteService
from kubexm.cli.run_views import chosen
from kubexm.errors import NotFoundError
from kubexm.plan import ExecutionGraph, GraphExecutionResult, Span, Timeline, timeline_of
from kubexm.plan.told import graph_of_data
from kubexm.service import RunInfo
from kubexm.store import StepLog, step_logs

if TYPE_CHECKING:
    from kubexm.cli.running import Watch

__all__ = ["RemoteRun", "RemoteRuns"]

T = TypeVar("T")
_PAGE = 500


class RemoteRuns:
    """The tasks of a server."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        """The latest first."""
        return [_info(task) for task in self._tasks(file, most)]

    def find(self, run: str, file: Path | None) -> RemoteRun:
        """The task of this id, of the only id that starts so, or the last one."""
        if run != "last":
            with contextlib.suppress(NotFoundError):
                return RemoteRun(self._service, asked(self._service, lambda asking: asking.get(f"tasks/{run}")))
        tasks = {task["id"]: task for task in self._tasks(file, 1 if run == "last" else _PAGE)}
        hint = "`kubexm runs list` shows those of the server"
        return RemoteRun(self._service, tasks[chosen(run, list(tasks), hint)])

    def _tasks(self, file: Path | None, most: int) -> list[dict[str, Any]]:
        cluster = {} if file is None else {"cluster": config.load(file).cluster.name}

        async def pages(asking: Asking) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            cursor: dict[str, str] = {}
            while True:
                page = await asking.get("tasks", limit=min(most, _PAGE), **cluster, **cursor)
                found += page["items"]
                if len(found) >= most or not page["next"]:
                    return found[:most]
                cursor = {"cursor": page["next"]}

        return asked(self._service, pages)


class RemoteRun:
    """One task."""

    def __init__(self, service: RemoteService, task: dict[str, Any]) -> None:
        self._service = service
        self._task = task
        self.id: str = task["id"]
        self.place = f"{service.address.url}/api/v1/tasks/{self.id}"

    def info(self) -> RunInfo:
        """As lists show it."""
        return _info(self._task)

    def step_logs(self) -> list[StepLog]:
        """The record of each (node, host) that ended."""

        async def pages(asking: Asking) -> list[StepLog]:
            found: list[StepLog] = []
            cursor: dict[str, str] = {}
            while True:
                page = await asking.get(f"tasks/{self.id}/logs", limit=_PAGE, **cursor)
                found += [StepLog(**each) for each in page["items"]]
                if not page["next"]:
                    return found
                cursor = {"cursor": page["next"]}

        return asked(self._service, pages)

    def graph(self) -> ExecutionGraph:
        """What was planned."""
        return graph_of_data(asked(self._service, lambda asking: asking.get(f"tasks/{self.id}/graph")))

    def timeline(self) -> Timeline:
        """Where the time went so far."""
        told = asked(self._service, lambda asking: asking.get(f"tasks/{self.id}/timeline"))
        names = ("node", "host", "state", "started", "ended", "busy")
        return timeline_of(self.graph(), (Span(**{name: span[name] for name in names}) for span in told["spans"]))

    def cost(self) -> dict[str, Any] | None:
        """What was measured beside it, if anything was."""
        found: dict[str, Any] | None = asked(self._service, lambda asking: asking.get(f"tasks/{self.id}/cost"))["cost"]
        return found

    def log_text(self, node: str, host: str) -> str:
        """The whole output of one (node, host)."""
        path = f"tasks/{self.id}/logs/{node}/{host}"
        return asked(self._service, lambda asking: asking.send("GET", path)).text

    def ended(self, *, follow: bool) -> Iterator[StepLog]:
        """What has ended; and, if followed, what ends until the task has."""
        if not follow or self._task["ended"]:
            yield from self.step_logs()
            return
        with asyncio.Runner() as runner:
            asking = self._service.asking()
            told = told_by(asking, self.id)
            try:
                while True:
                    try:
                        _, data = runner.run(_next(told))
                    except StopAsyncIteration:
                        return
                    event = event_of(data) if "kind" in data else None
                    yield from step_logs([event] if event is not None else [])
            finally:
                runner.run(asking.__aexit__(None, None, None))

    def cancel(self) -> None:
        """Asks the server to stop it."""
        asked(self._service, lambda asking: asking.post(f"tasks/{self.id}/cancel"))

    def resume(self, watch: Watch, *, rollback: bool) -> Awaitable[GraphExecutionResult]:
        """Has the server go on with it."""
        return self._service.resume(
            self.id, rollback=rollback, observers=watch.observers, cancellation=watch.cancellation
        )


def asked(service: RemoteService, what: Callable[[Asking], Awaitable[T]]) -> T:
    """Asks the server something short."""

    async def ask() -> T:
        async with service.asking() as asking:
            return await what(asking)

    return asyncio.run(ask())


async def _next(told: Any) -> Any:
    return await anext(told)


def _info(task: dict[str, Any]) -> RunInfo:
    name = task["pipeline"] or task["action"]
    return RunInfo(
        id=task["id"],
        cluster=task["cluster"],
        pipeline=f"plan {name}" if task["action"] == "plan" else name,
        status=task["state"],
        started=task["started"] or task["created"],
        ended=task["ended"],
        states=task["tally"],
        units=task["units"],
        dry_run=task["dry_run"],
        path=None,
    )
