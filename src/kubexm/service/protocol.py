"""What can be done with clusters, wherever it is done: on this machine, or by a server.

`ClusterService` and the remote client implement it. Whoever uses a service knows nothing more about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kubexm.plan import ExecutionGraph, GraphExecutionResult, RunSpec, Timeline
    from kubexm.service.reports import FactsReport, Planned, Watch
    from kubexm.service.run_files import RunInfo
    from kubexm.store import StepLog

__all__ = ["RunView", "Service"]


class RunView(Protocol):
    """One run."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def place(self) -> str:
        """Where it is kept, for people."""
        ...

    @property
    def logs(self) -> Path | None:
        """Where its logs are, if that is on this machine."""
        ...

    def info(self) -> RunInfo:
        """As lists show it."""
        ...

    def step_logs(self) -> list[StepLog]:
        """The record of each (node, host) that ended."""
        ...

    def graph(self) -> ExecutionGraph:
        """What was planned."""
        ...

    def timeline(self) -> Timeline:
        """Where the time went so far."""
        ...

    def cost(self) -> dict[str, Any] | None:
        """What was measured beside it, if anything was."""
        ...

    def log_text(self, node: str, host: str) -> str:
        """The whole output of one (node, host)."""
        ...

    def ended(self, *, follow: bool) -> Iterator[StepLog]:
        """What has ended; and, if followed, what ends until the run has."""
        ...

    def cancel(self) -> None:
        """Asks it to stop."""
        ...

    def resume(self, watch: Watch, *, rollback: bool = False) -> Awaitable[GraphExecutionResult]:
        """Continues it."""
        ...

    def resume_words(self) -> tuple[str, ...]:
        """The command line that continues it; empty if it cannot be continued."""
        ...


class Service(Protocol):
    """Everything the command line asks for."""

    @property
    def is_remote(self) -> bool:
        """True if the work is done by a server."""
        ...

    async def facts(self, file: Path, *, roles: Sequence[str] = (), limit: Sequence[str] = ()) -> FactsReport:
        """The facts of the hosts, gathered now."""
        ...

    def kubeconfig(self, file: Path) -> str:
        """The administrator's kubeconfig of the cluster."""
        ...

    async def plan(self, file: Path, spec: RunSpec, *, offline: bool = False) -> Planned:
        """The plan, from the file and the hosts' facts, or from the file alone."""
        ...

    async def run(self, file: Path, spec: RunSpec, watch: Watch | None = None) -> GraphExecutionResult:
        """Plans and executes what the spec asks for."""
        ...

    async def apply(
        self, saved: Path, how: RunSpec | None = None, watch: Watch | None = None, *, file: Path | None = None
    ) -> GraphExecutionResult:
        """Executes a saved plan exactly, or refuses because something it was made from has changed.

        `how` says how it is run; what is run is in the plan. `file`: the cluster file, if it moved.
        """
        ...

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        """Runs, the latest first."""
        ...

    def find(self, run: str, file: Path | None = None) -> RunView:
        """The run of this id, of the only id that starts so, or the last one."""
        ...
