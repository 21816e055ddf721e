"""How far a run is, counted from its events. Pure: knows no terminal, no clock, no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph
from kubexm.plan.render import id_parts

__all__ = ["Failure", "HostProgress", "Progress", "Tally"]

_GOOD = frozenset({"succeeded", "satisfied", "excluded"})
_CHANGED = "succeeded"
_SURE_AFTER = 3.0  # seconds before an estimate is worth showing


@dataclass(slots=True)
class Tally:
    """Units of a module, a host or the whole run, and how they ended."""

    total: int = 0
    done: int = 0
    changed: int = 0
    failed: int = 0
    bad: int = 0
    """Failed, blocked, cancelled or interrupted."""
    running: int = 0

    @property
    def finished(self) -> bool:
        """True if nothing is left."""
        return self.done >= self.total

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


@dataclass(slots=True)
class HostProgress:
    """One host: its units, what runs on it since when, and what ended on it last."""

    name: str
    tally: Tally = field(default_factory=Tally)
    running: dict[str, float] = field(default_factory=dict)
    last: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One (node, host) that failed or was stopped midway."""

    node: str
    host: str
    state: str
    message: str
    hint: str = ""
    optional: bool = False


@dataclass(slots=True)
class _NodeTimes:
    left: int
    weight: float
    wide: int
    ended: int = 0
    seconds: float = 0.0


class Progress:
    """Counts events. With the plan known beforehand it can also say what is still to come, and how long it may take."""

    def __init__(self) -> None:
        self.name = ""
        self.run = ""
        self.dry_run = False
        self.status = ""
        self.started: float | None = None
        self.now = 0.0
        """The time of the last event."""
        self.total = Tally()
        self.modules: dict[str, Tally] = {}
        self.hosts: dict[str, HostProgress] = {}
        self.cancelling = ""
        self.rolling_back = False
        self.steps: dict[str, str] = {}
        """What each node is about, for people."""
        self._optional: frozenset[str] = frozenset()
        self._times: dict[str, _NodeTimes] = {}
        self._down: dict[str, list[str]] = {}
        self._planned = False

    def planned(self, graph: ExecutionGraph) -> None:
        """The plan that is about to run."""
        self._planned = True
        self.name = graph.name
        self._optional = frozenset(node.id for node in graph.nodes.values() if node.optional)
        for node in graph.nodes.values():
            self.steps[node.id] = node.step.describe()
            module = self.modules.setdefault(node.module, Tally())
            module.total += len(node.hosts)
            self.total.total += len(node.hosts)
            for host in node.hosts:
                self._host(host).tally.total += 1
            self._times[node.id] = _NodeTimes(
                len(node.hosts), node.weight, min(node.max_parallel or len(node.hosts), len(node.hosts))
            )
            for other in (*node.after, *node.after_same_host):
                self._down.setdefault(other, []).append(node.id)

    def on_event(self, event: Event) -> Failure | None:
        """Counts it; returns what failed, if something did."""
        self.now = event.time
        match event.kind:
            case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
                self._begin(event)
            case EventKind.UNIT_RUNNING:
                host = self._host(event.host)
                if event.node not in host.running:
                    host.running[event.node] = event.time
                    self._module(event.node).running += 1
                    self.total.running += 1
            case EventKind.UNIT_DONE:
                return self._done(event)
            case EventKind.HOST_LOST:
                self._host(event.host).lost = str(event.data.get("reason", "lost"))
            case EventKind.RUN_CANCELLING:
                self.cancelling = "stopping now" if event.data.get("now") else "finishing what runs"
            case EventKind.ROLLBACK_RUNNING:
                self.rolling_back = True
            case EventKind.RUN_ENDED:
                self.status = str(event.data.get("status", ""))
        return None

    def _begin(self, event: Event) -> None:
        data = event.data
        self.name = data.get("name", self.name)
        self.run = data.get("run", "")
        self.dry_run = bool(data.get("dry_run"))
        self.started = event.time
        if not self._planned:
            self.total.total = data.get("units", 0)
            for host in data.get("hosts", ()):
                self._host(host)

    def _done(self, event: Event) -> Failure | None:
        state = str(event.data.get("state", ""))
        host = self._host(event.host)
        module = self._module(event.node)
        if host.running.pop(event.node, None) is not None:
            module.running -= 1
            self.total.running -= 1
        changed = state == _CHANGED and not event.data.get("waited")
        failed = state in ("failed", "interrupted")
        if changed or failed or not host.last:
            host.last = event.node
        for tally in (self.total, module, host.tally):
            tally.done += 1
            tally.changed += changed
            tally.failed += failed
            tally.bad += state not in _GOOD
            tally.total = max(tally.total, tally.done)
        self._time(event.node, event.data, event.time)
        if not failed:
            return None
        error = event.data.get("error") or {}
        message = error.get("message") or ("stopped midway" if state == "interrupted" else "failed")
        return Failure(event.node, event.host, state, message, error.get("hint", ""), event.node in self._optional)

    def _time(self, node: str, data: Mapping[str, Any], ended: float) -> None:
        times = self._times.get(node)
        if times is not None:
            times.left -= 1
            if (started := data.get("started")) is not None:
                times.ended += 1
                times.seconds += ended - started

    def _host(self, name: str) -> HostProgress:
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = HostProgress(name)
        return found

    def _module(self, node: str) -> Tally:
        return self.modules.setdefault(id_parts(node)[0], Tally())

    def remaining(self, now: float) -> float | None:
        """Seconds that are probably left: the longest chain of what is still to come, at the pace seen so far."""
        if self.started is None or now - self.started < _SURE_AFTER:
            return None
        ended = [times for times in self._times.values() if times.ended]
        weight = sum(times.weight * times.ended for times in ended)
        if not weight:
            return None
        pace = sum(times.seconds for times in ended) / weight
        path: dict[str, float] = {}
        for node, times in reversed(self._times.items()):
            below = max((path[other] for other in self._down.get(node, ())), default=0.0)
            path[node] = below + self._still(times, pace)
        return max(path.values(), default=0.0)

    @staticmethod
    def _still(times: _NodeTimes, pace: float) -> float:
        if times.left <= 0:
            return 0.0
        each = times.seconds / times.ended if times.ended else times.weight * pace
        rounds = -(-times.left // max(times.wide, 1))
        return each * rounds
