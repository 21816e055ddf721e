"""A run on disk: what it was asked to do, its graph, its journal and its logs; and how to read it back."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kubexm import __version__
from kubexm.errors import FormatError, GraphError, JournalError, KubexmError, UsageError
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph, RunSpec, RunStatus, Span, Timeline, timeline_of
from kubexm.plan.told import graph_as_known, graph_of_events
from kubexm.store import StepLog, read_journal, step_logs

__all__ = ["RunFiles", "RunInfo", "RunRecord"]

_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a run was asked to do, and what it was made from: enough to resume it."""

    id: str
    cluster: str
    file: str
    spec: RunSpec
    changes: bool
    config: Mapping[str, Any]
    """What the file said, without connection settings, secrets and asset sources: guards a resume."""
    version: str = __version__

    def to_json(self) -> dict[str, Any]:
        """As JSON, with the number of its format."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": _FORMAT, **data, "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> RunRecord:
        """Reads it back. FormatError if another version wrote it; TypeError or KeyError if it is damaged."""
        if not isinstance(data, Mapping):
            raise TypeError("it is no mapping")
        if data.get("format") != _FORMAT:
            raise FormatError(
                f"it has the format {data.get('format', 1)}, and this version of kubexm reads format {_FORMAT}"
            )
        rest = {name: value for name, value in data.items() if name != "format"}
        return cls(**{**rest, "spec": RunSpec.from_json(rest["spec"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as lists show it."""

    id: str
    cluster: str
    pipeline: str
    status: str
    """A RunStatus, `running`, or `interrupted` if its process is gone and it never ended."""
    started: float
    ended: float | None
    states: Mapping[str, int]
    units: int
    dry_run: bool
    path: Path | None
    """None for one that is not on this machine."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run."""

    path: Path

    @property
    def journal(self) -> Path:
        """Every event."""
        return self.path / "journal"

    @property
    def logs(self) -> Path:
        """The whole output of each (node, host)."""
        return self.path / "logs"

    @classmethod
    def create(cls, path: Path, record: RunRecord, graph: ExecutionGraph) -> RunFiles:
        """Makes the directory and writes record and graph before anything happens."""
        try:
            path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise KubexmError(f"{path} cannot be made: {error.strerror}", hint="nothing was started") from error
        files = cls(path)
        files._write("run.json", json.dumps(record.to_json(), ensure_ascii=False, indent=1, default=str))
        files._write("graph.json", graph.to_json())
        return files

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, this process carries out the run and no other can; UsageError if one does already."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self.still_running() from None
            self._write("process.json", json.dumps({"pid": os.getpid(), "started": _process_start(os.getpid())}))
            try:
                yield
            finally:
                (self.path / "process.json").unlink(missing_ok=True)
        finally:
            os.close(lock)

    def still_running(self) -> UsageError:
        """The error for whoever would carry out a run that is being carried out already."""
        pid = self.process()
        return UsageError(
            f"run {self.path.name} is still running" + (f" (process {pid})" if pid else ""),
            hint="`kubexm runs cancel` stops it",
        )

    def record(self) -> RunRecord:
        """What the run was asked to do."""
        try:
            return RunRecord.from_json(self._read("run.json"))
        except FormatError as error:
            raise JournalError(f"{self.path / 'run.json'}: {error.message}", hint=_NEW) from error
        except (TypeError, KeyError) as error:
            raise JournalError(f"{self.path / 'run.json'} is damaged: {error}", hint=_NEW) from error

    def graph(self) -> ExecutionGraph:
        """The graph exactly as it was planned."""
        try:
            return ExecutionGraph.from_dict(self._read("graph.json"))
        except GraphError as error:
            raise JournalError(f"{self.path / 'graph.json'}: {error.message}", hint=error.hint or _NEW) from error

    def known_graph(self) -> ExecutionGraph:
        """The graph as far as this code knows it, for showing: older code made other steps."""
        try:
            return graph_as_known(self._read("graph.json"))
        except (GraphError, JournalError):
            return graph_of_events(self.record().spec.pipeline, self.events())

    def info(self) -> RunInfo:
        """The run as lists show it: from its summary if it is over, else from its journal."""
        record = self.record()
        told = self._summary()
        if told is not None:
            return RunInfo(
                id=record.id,
                cluster=record.cluster,
                pipeline=record.spec.pipeline,
                dry_run=record.spec.dry_run,
                path=self.path,
                **told,
            )
        events = self.events()
        ends = [event for event in events if event.kind is EventKind.RUN_ENDED]
        begins = [event for event in events if event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)]
        over = bool(ends) and (not begins or ends[-1].seq > begins[-1].seq)
        status = str(ends[-1].data["status"]) if over else "running" if self.process() else RunStatus.INTERRUPTED.value
        return RunInfo(
            id=record.id,
            cluster=record.cluster,
            pipeline=record.spec.pipeline,
            status=status,
            started=begins[0].time if begins else self.path.stat().st_mtime,
            ended=ends[-1].time if over else None,
            states=Counter(log.state for log in step_logs(events)),
            units=begins[-1].data["units"] if begins else 0,
            dry_run=record.spec.dry_run,
            path=self.path,
        )

    def write_summary(self) -> None:
        """Writes down how the run ended, so that lists need not read its journal."""
        size, found = self.journal.stat().st_size, self.info()
        data = {name: getattr(found, name) for name in _SUMMARY}
        if found.status != "running":
            self._write("summary.json", json.dumps({"journal": size, **data, "states": dict(found.states)}))

    def _summary(self) -> dict[str, Any] | None:
        """What was written down at the end, if the journal has not grown since."""
        try:
            data = self._read("summary.json")
            if data.pop("journal") == self.journal.stat().st_size and data.keys() == _SUMMARY:
                return dict(data)
        except (JournalError, OSError, KeyError, AttributeError):
            pass
        return None

    def events(self) -> list[Event]:
        """All events so far."""
        return read_journal(self.journal) if self.journal.exists() else []

    def cost(self) -> dict[str, Any] | None:
        """What users of the cluster experienced, as measured last; None if nothing was measured."""
        costs = [event.data for event in self.events() if event.kind is EventKind.RUN_COST]
        return dict(costs[-1]) if costs else None

    def step_logs(self) -> list[StepLog]:
        """The record of each (node, host) that ended."""
        return step_logs(self.events())

    def timeline(self, graph: ExecutionGraph | None = None) -> Timeline:
        """Where the time went so far."""
        events = self.events()
        done = (event for event in events if event.kind is EventKind.UNIT_DONE and "started" in event.data)
        ends = [event.data.get("round_trips", {}) for event in events if event.kind is EventKind.RUN_ENDED]
        spans = (
            Span(
                node=event.node,
                host=event.host,
                state=event.data["state"],
                started=event.data["started"],
                ended=event.time,
                busy=event.data.get("busy", 0.0),
            )
            for event in done
        )
        return timeline_of(graph or self.graph(), spans, ends[-1] if ends else None)

    def write_timeline(self, graph: ExecutionGraph) -> None:
        """Writes down where the time went: `timeline.html` for people, `trace.json` for trace viewers."""
        from kubexm.plan.render import timeline_to_html, timeline_to_trace

        timeline = self.timeline(graph)
        self._write("timeline.html", timeline_to_html(timeline, title=f"{graph.name}, run {self.path.name}"))
        self._write("trace.json", json.dumps(timeline_to_trace(timeline)))

    def log_text(self, node: str, host: str) -> str:
        """The whole output of one (node, host)."""
        path = self.logs / f"{node}@{host}.log"
        return path.read_text("utf-8") if path.exists() else ""

    def process(self) -> int | None:
        """The process that carries out the run, if it is alive."""
        try:
            noted = self._read("process.json")
        except JournalError:
            return None
        match noted:
            case {"pid": int(pid), "started": str(started)} if started and _process_start(pid) == started:
                return pid
        return None

    def cancel(self) -> None:
        """Asks the process to finish what runs and start nothing new."""
        pid = self.process()
        if pid is None:
            raise UsageError(f"run {self.path.name} is not running", hint="`kubexm runs show` tells how it ended")
        os.kill(pid, signal.SIGINT)

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            return json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise JournalError(f"{path} is missing", hint="`kubexm runs list` shows the runs there are") from None
        except (OSError, ValueError) as error:
            raise JournalError(f"{path} cannot be read: {error}") from error

    def _write(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}"
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.path / name)
        except OSError as error:
            raise KubexmError(
                f"{self.path / name} cannot be written: {error.strerror}", hint="nothing was started"
            ) from error


_SUMMARY = {"status", "started", "ended", "states", "units"}
_NEW = "the run cannot be resumed; starting anew is always safe"


def _process_start(pid: int) -> str:
    """When the process started, so that a later one with its number is not taken for it; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
