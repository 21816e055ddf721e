"""Tasks of a server, as runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kubexm.cli.remote.asking import Asking
from kubexm.cli.remote.following import event_of, told_by
from kubexm.plan import ExecutionGraph, GraphExecutionResult, Span, Timeline, timeline_of
from kubexm.plan.told import graph_of_data
from kubexm.service import RunInfo
from kubexm.store import StepLog, step_logs

if TYPE_CHECKING:
    from kubexm.cli.remote.service import RemoteService
    from kubexm.service import Watch

__all__ = ["RemoteRun", "asked", "info_of"]

T = TypeVar("T")
PAGE = 500


class RemoteRun:
    """One task."""

    def __init__(self, service: RemoteService, task: dict[str, Any]) -> None:
        self._service = service
        self._task = task
        self.id: str = task["id"]
        self.place = f"{service.address.url}/api/v1/tasks/{self.id}"
        self.logs: Path | None = None

    def info(self) -> RunInfo:
        """As lists show it."""
        return info_of(self._task)

    def step_logs(self) -> list[StepLog]:
        """The record of each (node, host) that ended."""

        async def pages(asking: Asking) -> list[StepLog]:
            found: list[StepLog] = []
            cursor: dict[str, str] = {}
            while True:
                page = await asking.get(f"tasks/{self.id}/logs", limit=PAGE, **cursor)
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

    def resume(self, watch: Watch, *, rollback: bool = False) -> Awaitable[GraphExecutionResult]:
        """Has the server continue it."""
        return self._service.resume(self.id, watch, rollback=rollback)

    def resume_words(self) -> tuple[str, ...]:
        """The command line that continues it; empty if it cannot be continued."""
        if not self._task["resumable"] or not self._task["changes"]:
            return ()
        return ("kubexm", *self._service.address.words, "runs", "resume", self.id)


def asked(service: RemoteService, what: Callable[[Asking], Awaitable[T]]) -> T:
    """Asks the server something short."""

    async def ask() -> T:
        async with service.asking() as asking:
            return await what(asking)

    return asyncio.run(ask())


async def _next(told: Any) -> Any:
    return await anext(told)


def info_of(task: dict[str, Any]) -> RunInfo:
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
