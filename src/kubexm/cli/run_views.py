"""Runs as the command line looks at them, wherever they are: on this machine, or tasks of a server."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from kubexm.errors import UsageError
from kubexm.plan import ExecutionGraph, GraphExecutionResult, Timeline
from kubexm.service import ClusterService, RunFiles, RunInfo
from kubexm.store import JournalReader, StepLog, step_logs

if TYPE_CHECKING:
    from kubexm.cli.running import Watch

__all__ = ["LocalRuns", "RunView", "Runs", "chosen", "runs_of"]


class RunView(Protocol):
    """One run."""

    id: str
    place: str
    """Where it is kept, for people."""

    def info(self) -> RunInfo: ...
    def step_logs(self) -> list[StepLog]: ...
    def graph(self) -> ExecutionGraph: ...
    def timeline(self) -> Timeline: ...
    def cost(self) -> dict[str, Any] | None:
        """What was measured beside it, if anything was."""
        ...

    def log_text(self, node: str, host: str) -> str: ...
    def ended(self, *, follow: bool) -> Iterator[StepLog]:
        """What has ended; and, if followed, what ends until the run has."""
        ...

    def cancel(self) -> None: ...
    def resume(self, watch: Watch, *, rollback: bool) -> Awaitable[GraphExecutionResult]: ...


class Runs(Protocol):
    """All runs there are."""

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        """The latest first."""
        ...

    def find(self, run: str, file: Path | None) -> RunView:
        """The run of this id, of the only id that starts so, or the last one."""
        ...


def runs_of(ctx: typer.Context) -> Runs:
    """The runs of this machine, or of the server that was named."""
    from kubexm.cli.running import service_of

    service = service_of(ctx)
    if isinstance(service, ClusterService):
        return LocalRuns(service)
    from kubexm.cli.remote.runs import RemoteRuns

    return RemoteRuns(service)


def chosen(run: str, names: Sequence[str], hint: str) -> str:
    """The name that is meant; names are in order of time."""
    if not run.strip():
        raise UsageError("the name of the run is empty", hint="say `last` for the latest; " + hint)
    if run == "last" and names:
        return max(names)  # ids sort by time
    found = [run] if run in names else [name for name in names if name.startswith(run)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several runs start with {run!r}", hint=f"say which: {', '.join(found)}")
    raise UsageError(f"there is no run {run!r} here", hint=hint)


class LocalRuns:
    """Runs in work directories of this machine."""

    def __init__(self, service: ClusterService) -> None:
        self._service = service

    def latest(self, file: Path | None, most: int) -> list[RunInfo]:
        return self._service.runs(file, most=most)[::-1]

    def find(self, run: str, file: Path | None) -> RunView:
        found = {files.path.name: files for files in self._service.all_runs(file)}
        hint = "`kubexm runs list` shows them; --work-dir or -f says where to look"
        return _LocalRun(self._service, found[chosen(run, list(found), hint)], file)


class _LocalRun:
    def __init__(self, service: ClusterService, files: RunFiles, file: Path | None) -> None:
        self._service = service
        self._files = files
        self._file = file
        self.id = files.path.name
        self.place = str(files.path)
        self.info = files.info
        self.step_logs = files.step_logs
        self.cost = files.cost
        self.graph = files.known_graph
        self.log_text = files.log_text
        self.cancel = files.cancel

    def timeline(self) -> Timeline:
        return self._files.timeline(self._files.known_graph())

    def ended(self, *, follow: bool) -> Iterator[StepLog]:
        journal = JournalReader(self._files.journal)
        while True:
            over = not follow or self._files.process() is None
            yield from step_logs(journal.more())
            if over:
                return
            time.sleep(0.3)  # the journal is a file: there is nothing to wait on but its growth

    def resume(self, watch: Watch, *, rollback: bool) -> Awaitable[GraphExecutionResult]:
        return self._service.resume(
            self._files.path,
            file=self._file,
            observers=watch.observers,
            cancellation=watch.cancellation,
            rollback=rollback,
        )
