"""From events to rows: what of a journal goes into which table. Pure; knows neither database nor file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubexm.events import Event, EventKind
from kubexm.store.texts import clean, to_json

__all__ = ["NodeTally", "Rows", "Tally", "event_data"]

_NOT_SHOWN = frozenset({"stdout", "stderr", "values"})
"""What is in step logs already, and what only a resume needs."""
_MORE = ("reason", "prediction", "diff", "warnings", "busy", "waited", "actor")
_WORST_FIRST = ("failed", "interrupted", "blocked", "cancelled", "succeeded", "satisfied", "excluded")


def event_data(event: Event) -> dict[str, Any]:
    """The data of an event as it is kept and streamed: without output, which is asked for by itself."""
    data = {name: value for name, value in event.data.items() if name not in _NOT_SHOWN}
    error = data.get("error")
    if isinstance(error, dict):
        data["error"] = {name: value for name, value in error.items() if name not in _NOT_SHOWN}
    return data


@dataclass(slots=True)
class NodeTally:
    """How one node stands: so many hosts in each final state, and from when to when."""

    states: dict[str, int] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None

    @property
    def worst(self) -> str:
        """The worst state any host is in."""
        return next((state for state in _WORST_FIRST if self.states.get(state)), "excluded")


@dataclass(slots=True)
class Tally:
    """How a task stands; grows with each event. A unit that ends again, after a resume, counts once."""

    units: int = 0
    graph: str = ""
    states: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, NodeTally] = field(default_factory=dict)
    of_unit: dict[tuple[str, str], str] = field(default_factory=dict)

    def count(self, node: str, host: str, state: str, started: float | None, ended: float | None) -> None:
        """A (node, host) has ended in this state."""
        tally = self.nodes.setdefault(node, NodeTally())
        before = self.of_unit.get((node, host))
        if before is not None:
            self.states[before] -= 1
            tally.states[before] -= 1
        self.of_unit[node, host] = state
        self.states[state] = self.states.get(state, 0) + 1
        tally.states[state] = tally.states.get(state, 0) + 1
        if started is not None:
            tally.started = started if tally.started is None else min(tally.started, started)
        if ended is not None:
            tally.ended = ended if tally.ended is None else max(tally.ended, ended)


@dataclass(slots=True)
class Rows:
    """Rows for one batch of events of one task."""

    events: list[dict[str, Any]] = field(default_factory=list)
    step_logs: list[dict[str, Any]] = field(default_factory=list)
    host_results: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    node_results: dict[str, dict[str, Any]] = field(default_factory=dict)
    bytes: int = 0
    over: bool = False
    """True if the run had ended with the last of these events."""

    @classmethod
    def of(cls, task: int, batch: Iterable[Event], tally: Tally) -> Rows:
        """The rows of these events, which are counted on the way."""
        rows = cls()
        for event in batch:
            rows._add(task, event, tally)
        for node in {node for node, _ in rows.host_results}:
            each = tally.nodes[node]
            rows.node_results[node] = {
                "task": task,
                "node": node,
                "state": each.worst,
                "tally": to_json({state: number for state, number in each.states.items() if number}),
                "started": each.started,
                "ended": each.ended,
            }
        return rows

    def _add(self, task: int, event: Event, tally: Tally) -> None:
        node, host = clean(event.node), clean(event.host)
        data = to_json(event_data(event))
        self.events.append(
            {
                "task": task,
                "seq": event.seq,
                "time": event.time,
                "kind": event.kind.value,
                "node": node,
                "host": host,
                "data": data,
            }
        )
        self.bytes += len(data) + 150
        self.over = event.kind is EventKind.RUN_ENDED
        if event.kind is EventKind.UNIT_DONE:
            self._ended(task, event, node, host, tally)
        elif event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
            tally.units = int(event.data.get("units", 0))
            tally.graph = str(event.data.get("graph", ""))

    def _ended(self, task: int, event: Event, node: str, host: str, tally: Tally) -> None:
        data = event.data
        error: Mapping[str, Any] = data.get("error", {})
        state, started = str(data["state"]), data.get("started")
        shared = {
            "task": task,
            "seq": event.seq,
            "node": node,
            "host": host,
            "state": state,
            "error": clean(error.get("message", "")),
            "hint": clean(error.get("hint", "")),
            "started": started,
            "ended": event.time,
        }
        stdout = clean(data.get("stdout", ""))
        stderr = clean(data.get("stderr", "") or error.get("stderr", ""))
        if stdout or stderr or error or started is not None:
            self.step_logs.append({**shared, "stdout": stdout, "stderr": stderr})
            self.bytes += len(stdout) + len(stderr) + 150
        root = data.get("root_cause", ("", ""))
        more = {name: data[name] for name in _MORE if data.get(name)}
        more |= {name: error[name] for name in ("kind", "command", "exit_code") if name in error}
        self.host_results[node, host] = {
            **shared,
            "attempts": data.get("attempts", 0),
            "root_node": clean(root[0]),
            "root_host": clean(root[1]),
            "more": to_json(more),
        }
        self.bytes += 150
        tally.count(node, host, state, started, event.time)
