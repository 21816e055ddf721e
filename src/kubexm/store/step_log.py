"""What a person asks of a run: for each (node, host) what it printed, how it ended and when. Derived from events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.events import Event, EventKind

__all__ = ["StepLog", "step_logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLog:
    """The record of one (node, host)."""

    seq: int
    node: str
    host: str
    state: str
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    hint: str = ""
    started: float | None = None
    ended: float | None = None


def step_logs(events: Iterable[Event]) -> list[StepLog]:
    """The last record of each (node, host) that ended, in order of their ends."""
    logs: dict[tuple[str, str], StepLog] = {}
    for event in events:
        if event.kind is EventKind.UNIT_DONE:
            data = event.data
            error = data.get("error", {})
            logs.pop((event.node, event.host), None)
            logs[event.node, event.host] = StepLog(
                seq=event.seq,
                node=event.node,
                host=event.host,
                state=data["state"],
                stdout=data.get("stdout", ""),
                stderr=data.get("stderr", "") or error.get("stderr", ""),
                error=error.get("message", ""),
                hint=error.get("hint", ""),
                started=data.get("started"),
                ended=event.time,
            )
    return list(logs.values())
