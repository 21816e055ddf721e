"""What an engine is: it takes a graph and a context, and returns what happened. Any engine keeps this protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubexm.engine.journal import Journal
from kubexm.engine.prior import Prior
from kubexm.events import Observer
from kubexm.plan import ExecutionGraph, GraphExecutionResult
from kubexm.runtime import Context

__all__ = ["Cancellation", "Engine", "RunOptions"]


class Cancellation:
    """How a run is stopped from outside.

    Once: what runs finishes, and nothing starts. Twice: what runs is stopped now. Both times brackets that are open are
    closed; abandoned, or cancelled for a third time, the run leaves even these.
    """

    def __init__(self) -> None:
        self.level = 0
        self._listeners: list[Callable[[int], None]] = []

    def cancel(self) -> None:
        """One level further."""
        self._raise_to(min(self.level + 1, 3))

    def abandon(self) -> None:
        """Stops now, and closes nothing: somebody else may own the cluster."""
        self._raise_to(3)

    def _raise_to(self, level: int) -> None:
        self.level = level
        for listener in self._listeners:
            listener(level)

    def listen(self, listener: Callable[[int], None]) -> None:
        """Calls it with the level, now if something was cancelled already, and at each change."""
        self._listeners.append(listener)
        if self.level:
            listener(self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All there is to say about one execution beside its graph and its context."""

    run: str
    journal: Journal
    dry_run: bool = False
    """Same schedule, prechecks only."""
    prior: Prior | None = None
    """What an interrupted execution of the same run left behind."""
    observers: tuple[Observer, ...] = ()
    logs: Path | None = None
    """Directory for the whole output of each (node, host)."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    rollback: bool = False
    """After a failure, undo what this run changed."""


class Engine(Protocol):
    """Executes graphs."""

    async def execute(self, ctx: Context, graph: ExecutionGraph, options: RunOptions) -> GraphExecutionResult:
        """Runs the graph to its end, whatever happens on the hosts; every (node, host) has one final state."""
        ...
