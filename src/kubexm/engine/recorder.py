"""Tells what happens: to the journal, to observers, to the logs, and at the end as results. Decides nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubexm.connector import Stream
from kubexm.engine.journal import Journal
from kubexm.engine.layout import Unit
from kubexm.events import Event, EventKind, Observer
from kubexm.plan import ErrorInfo, HostResult
from kubexm.redact import Redactor

__all__ = ["Recorder", "UnitLog"]

_DONE = EventKind.UNIT_DONE


class Recorder:
    """Events out, results kept."""

    def __init__(
        self,
        journal: Journal,
        observers: tuple[Observer, ...],
        redactor: Redactor,
        logger: logging.Logger,
        logs: Path | None,
    ) -> None:
        self.journal = journal
        self.redactor = redactor
        self.logger = logger
        self._observers = observers
        self._logs = logs
        self.results: dict[Unit, HostResult] = {}
        self._open: dict[tuple[str, str], UnitLog] = {}

    def emit(self, kind: EventKind, node: str = "", host: str = "", data: Mapping[str, Any] | None = None) -> Event:
        """Journals an event and shows it to everyone."""
        event = self.journal.append(kind, node, host, data)
        if self._observers:
            self._show(event)
        return event

    def done(self, unit: Unit, node: str, result: HostResult, extra: Mapping[str, Any] | None = None) -> None:
        """A unit has its final state."""
        self.results[unit] = result
        host, state, started, _, busy, attempts, out, err, error, cause, reason, foreseen, diff, warnings, *_ = result
        data: dict[str, Any] = {"state": state}
        if started is not None:
            data["started"] = started
        if busy:
            data["busy"] = busy
        if attempts:
            data["attempts"] = attempts
        if out:
            data["stdout"] = out
        if err:
            data["stderr"] = err
        if error is not None:
            data["error"] = error.to_dict()
        if cause is not None:
            data["root_cause"] = list(cause)
        if reason:
            data["reason"] = reason
        if foreseen is not None:
            data["prediction"] = foreseen
            data["diff"] = diff
        if warnings:
            data["warnings"] = list(warnings)
        data |= {name: value for name, value in (("waited", result.waited), ("actor", result.actor)) if value}
        data.update(extra or {})
        self.emit(_DONE, node, host, data)

    def rolled_back(self, unit: Unit, *, ok: bool) -> None:
        """Notes in a unit's result how its rollback ended."""
        self.results[unit] = self.results[unit]._replace(rolled_back=ok)

    def error(self, error: BaseException) -> ErrorInfo:
        """The error as data, secrets masked."""
        return ErrorInfo.of(error, self.redactor)

    def output(self, node: str, host: str, stream: Stream, data: bytes) -> None:
        """What a changing command of (node, host) printed just now: to its log, and to observers."""
        log = self._open.get((node, host))
        if log is None:
            log = self._open[node, host] = UnitLog(self, node, host, self._logs)
        log.take(stream, data)

    def flush(self, node: str, host: str) -> None:
        """An attempt at (node, host) ended: writes what had no newline at its end."""
        if self._open and (log := self._open.pop((node, host), None)) is not None:
            log.flush()

    def show_output(self, node: str, host: str, stream: Stream, text: str) -> None:
        """Live output, for observers only."""
        if self._observers:
            self._show(Event(0, time.time(), EventKind.UNIT_OUTPUT, node, host, {"stream": stream, "text": text}))

    def _show(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:  # an observer can never change or stop a run
                self.logger.exception("an observer failed and is left out from here on")
                self._observers = tuple(other for other in self._observers if other is not observer)


class UnitLog:
    """The whole output of one (node, host), line by line, secrets masked. The file appears with the first line."""

    __slots__ = ("_directory", "_host", "_node", "_partial", "_recorder")

    def __init__(self, recorder: Recorder, node: str, host: str, directory: Path | None) -> None:
        self._recorder = recorder
        self._node = node
        self._host = host
        self._directory = directory
        self._partial: dict[Stream, bytes] = {}

    def take(self, stream: Stream, data: bytes) -> None:
        """Takes one piece of output."""
        whole, newline, rest = (self._partial.pop(stream, b"") + data).rpartition(b"\n")
        if len(rest) > 65536:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        if rest:
            self._partial[stream] = rest
        if newline:
            self._write(stream, whole + newline)

    def flush(self) -> None:
        """Writes what had no newline at its end."""
        for stream, rest in self._partial.items():
            self._write(stream, rest + b"\n")
        self._partial.clear()

    def _write(self, stream: Stream, data: bytes) -> None:
        text = self._recorder.redactor(data.decode(errors="replace"))
        self._recorder.show_output(self._node, self._host, stream, text)
        if self._directory is None:
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self._directory / f"{self._node}@{self._host}.log").open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:  # a full disk here must not fail the host's work; the journal has the tail
            self._recorder.logger.warning("%s: cannot write the log: %s", self._directory, error)
            self._directory = None
