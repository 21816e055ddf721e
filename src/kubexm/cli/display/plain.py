"""A run as plain lines, for pipes, logs and CI: one for each (node, host) that changed or failed."""

from __future__ import annotations

from kubexm.cli.display.progress import Progress
from kubexm.cli.display.words import count, duration
from kubexm.cli.display.writer import LineWriter
from kubexm.cli.style import paint
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph

__all__ = ["PlainLines"]

_WORDS = {
    "succeeded": ("changed", "green"),
    "satisfied": ("ok", "dim"),
    "failed": ("FAILED", "red"),
    "interrupted": ("STOPPED", "red"),
    "blocked": ("blocked", "yellow"),
    "cancelled": ("not run", "dim"),
    "excluded": ("left out", "dim"),
}
_FORESEEN = {"change": ("would change", "yellow"), "unknown": ("unknown", "yellow"), "wait": ("would wait", "dim")}
_ALWAYS = frozenset({"succeeded", "failed", "interrupted"})


class PlainLines:
    """Writes a line for what changed or failed; with -v for everything that ended, with -vv output too."""

    def __init__(self, writer: LineWriter, *, verbose: int = 0) -> None:
        self._writer = writer
        self._verbose = verbose
        self.progress = Progress()

    def planned(self, graph: ExecutionGraph) -> None:
        """The plan that is about to run."""
        self.progress.planned(graph)

    def on_event(self, event: Event) -> None:
        """A line, if it is worth one."""
        self.progress.on_event(event)
        match event.kind:
            case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
                self._begun(event)
            case EventKind.UNIT_DONE:
                self._done(event)
            case EventKind.UNIT_RETRY:
                self._line(
                    event, "retry", "yellow", f"in {duration(event.data.get('delay', 0.0))}", event.data["error"]
                )
            case EventKind.UNIT_OUTPUT if self._verbose > 1:
                prefix = f"         {event.host} | "
                self._writer.write("\n".join(prefix + line for line in str(event.data["text"]).splitlines()))
            case EventKind.HOST_LOST:
                self._line(event, "LOST", "red", "", str(event.data.get("reason", "")))
            case EventKind.RUN_CANCELLING:
                self._writer.write(f"{self._time(event)} {self.progress.cancelling}")
            case EventKind.ROLLBACK_DONE:
                undone = bool(event.data.get("ok"))
                message = "" if undone else str(event.data.get("error", {}).get("message", ""))
                self._line(event, "undone" if undone else "NOT UNDONE", "yellow" if undone else "red", "", message)

    def _begun(self, event: Event) -> None:
        data = event.data
        what = "dry run" if data.get("dry_run") else "run"
        again = " again" if event.kind is EventKind.RUN_RESUMED else ""
        size = f"{count(len(data.get('hosts', ())), 'host')}, {count(data.get('units', 0), 'unit')}"
        self._writer.write(f"{data.get('name', '')}: {what} {data.get('run', '')}{again}, {size}")

    def _done(self, event: Event) -> None:
        state = str(event.data.get("state", ""))
        predicted = event.data.get("prediction")
        if state not in _ALWAYS and not self._verbose:
            return
        word, colour = _WORDS.get(state, (state, "dim"))
        if predicted in _FORESEEN:
            word, colour = _FORESEEN[predicted]
        elif state == "succeeded" and event.data.get("waited"):
            word, colour = "ready", "green"
        started = event.data.get("started")
        took = duration(event.time - started) if started is not None else ""
        error = event.data.get("error") or {}
        self._line(event, word, colour, took, error.get("message") or event.data.get("reason", ""))
        for warning in event.data.get("warnings", ()):
            self._writer.write(f"         {paint('warning:', 'yellow')} {warning}")

    def _line(self, event: Event, word: str, colour: str, took: str, message: str) -> None:
        where = "  ".join(part for part in (event.host, event.node) if part)
        step = self.progress.steps.get(event.node, "")
        about = f"  {step}" if step and not message else ""
        line = f"{self._time(event)} {paint(f'{word:<8}', colour)} {where}{about}" + (f"  ({took})" if took else "")
        self._writer.write("\n".join([line, *(f"         {each}" for each in message.splitlines())]))

    def _time(self, event: Event) -> str:
        begun = self.progress.started
        return f"{event.time - begun:8.1f}" if begun is not None else " " * 8
