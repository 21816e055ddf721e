"""Runs of this machine, as every service shows runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from kubexm.errors import UsageError
from kubexm.plan import GraphExecutionResult, Timeline
from kubexm.service.reports import Watch
from kubexm.service.run_files import RunFiles
from kubexm.store import JournalReader, StepLog, step_logs

__all__ = ["LocalRun", "chosen"]


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


class LocalRun:
    """One run in a work directory."""

    def __init__(
        self,
        files: RunFiles,
        resume: Callable[[Watch, bool], Awaitable[GraphExecutionResult]],
        words: tuple[str, ...] = (),
    ) -> None:
        """`words`: what a command line needs to find it."""
        self._files = files
        self._resume = resume
        self._words = words
        self.id = files.path.name
        self.place = str(files.path)
        self.logs: Path | None = files.logs
        self.info = files.info
        self.step_logs = files.step_logs
        self.cost = files.cost
        self.graph = files.known_graph
        self.log_text = files.log_text
        self.cancel = files.cancel

    def timeline(self) -> Timeline:
        """Where the time went so far."""
        return self._files.timeline(self._files.known_graph())

    def ended(self, *, follow: bool) -> Iterator[StepLog]:
        """What has ended; and, if followed, what ends until the run has."""
        journal = JournalReader(self._files.journal)
        while True:
            over = not follow or self._files.process() is None
            yield from step_logs(journal.more())
            if over:
                return
            time.sleep(0.3)  # the journal is a file: there is nothing to wait on but its growth

    def resume(self, watch: Watch, *, rollback: bool = False) -> Awaitable[GraphExecutionResult]:
        """Continues it."""
        return self._resume(watch, rollback)

    def resume_words(self) -> tuple[str, ...]:
        """The command line that continues it; empty if it changes nothing."""
        return ("kubexm", "runs", "resume", self.id, *self._words) if self._files.record().changes else ()
