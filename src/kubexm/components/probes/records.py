"""What agents recorded, put together and judged: the cost of a run. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kubexm.components.probes.program import FORMAT
from kubexm.errors import KubexmError

__all__ = ["Cost", "Measured", "cost_of", "judge", "parse_record", "rows_of"]

BASELINES: Final = ("idle", "busy")
ENDED: Final = "ended"
"""The phase of requests that nobody counts any more."""
SETUP: Final = "setup"
"""The phase of requests before everything that is measured is there."""
_LATE_SHARE: Final = 0.01
_LATE_WORST: Final = 1000.0
_GAP: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One kind of request from one agent to one target, in one phase."""

    name: str
    target: str
    source: str
    phase: str
    sent: int = 0
    ok: int = 0
    misses: Mapping[str, int] = field(default_factory=dict)
    slow: int = 0
    retried: int = 0
    reconnects: int = 0
    longest_gap: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    ticks_late: int = 0
    tick_worst_ms: float = 0.0
    recent: Sequence[Mapping[str, Any]] = ()

    @property
    def missed(self) -> int:
        """Requests without the expected answer."""
        return sum(self.misses.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What users of the cluster experienced during a run."""

    id: str
    level: str
    started: float
    ended: float
    host: str = ""
    """Where the API was measured from."""
    targets: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[Measured, ...] = ()
    writes: Mapping[str, Any] = field(default_factory=dict)
    watch: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Mapping[str, Any], ...] = ()
    containers: Mapping[str, Any] = field(default_factory=dict)
    leader_changes: int | None = None
    """Of etcd; None if that is not known."""
    problems: tuple[str, ...] = ()
    """What could not be measured, and why."""
    doubts: tuple[str, ...] = ()
    """Why the figures say nothing about the cluster; empty if they do."""

    @property
    def missed(self) -> int:
        """Requests without the expected answer, baselines left out."""
        return sum(each.missed for each in self.measured if each.phase not in BASELINES)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: in the run's record, over REST and on the command line."""
        return {**asdict(self), "missed": self.missed, "measured": [_row(each) for each in self.measured]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """What `to_dict` gave."""
        known = {name: data[name] for name in cls.__slots__ if name in data}
        known["measured"] = tuple(
            Measured(**{name: row[name] for name in Measured.__slots__ if name in row}) for row in data["measured"]
        )
        for name in ("nodes", "problems", "doubts"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


def parse_record(text: str, *, host: str) -> dict[str, Any]:
    """The record of an agent. KubexmError if it is none, or of another format."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise KubexmError(f"{host}: the record of the probe is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else type(record).__name__
        raise KubexmError(
            f"{host}: the probe's record has format {found}, and this kubexm reads {FORMAT}",
            hint="use the bundle that was made for this version of kubexm",
        )
    return record


def cost_of(
    records: Iterable[Mapping[str, Any]],
    *,
    mark: str,
    level: str,
    started: float,
    ended: float,
    host: str,
    targets: Mapping[str, str],
    containers: Mapping[str, Any] | None = None,
    leader_changes: int | None = None,
    problems: Sequence[str] = (),
) -> Cost:
    """The records of all agents as one."""
    found = list(records)
    measured = tuple(
        _measured(series, phase, stats, record["name"])
        for record in found
        for series in record["series"]
        for phase, stats in series["phases"].items()
        if phase not in (SETUP, ENDED)
    )
    api = next((record for record in found if record.get("writes")), {})
    return Cost(
        id=mark,
        level=level,
        started=started,
        ended=ended,
        host=host,
        targets=targets,
        measured=measured,
        writes=api.get("writes", {}),
        watch=api.get("watch", {}),
        nodes=tuple(api.get("nodes") or ()),
        containers=containers or {},
        leader_changes=leader_changes,
        problems=tuple(problems),
        doubts=judge(measured),
    )


def judge(measured: Sequence[Measured]) -> tuple[str, ...]:
    """Why figures say nothing about the cluster: the machine was too busy for the prober, or for the cluster itself."""
    doubts = []
    sent, late = sum(each.sent for each in measured), sum(each.ticks_late for each in measured)
    worst = max((each.tick_worst_ms for each in measured), default=0.0)
    if sent and (late > sent * _LATE_SHARE or worst > _LATE_WORST):
        doubts.append(
            f"the prober itself was late: {late} of {sent} requests by more than 200 ms, {worst / 1000:.1f} s at worst"
        )
    for phase in BASELINES:
        rows = [each for each in measured if each.phase == phase]
        missed, gap = sum(each.missed for each in rows), max((each.longest_gap for each in rows), default=0.0)
        total = sum(each.sent for each in rows)
        if missed:
            doubts.append(f"{missed} of {total} requests failed in the {phase} baseline, when nothing was done")
        elif gap > _GAP and (slow := [each for each in rows if each.longest_gap > _GAP and each.name != "pod-start"]):
            doubts.append(f"{slow[0].name}: no answer for {slow[0].longest_gap:.1f} s in the {phase} baseline")
    return tuple(doubts)


def rows_of(measured: Iterable[Measured], *, baselines: bool = True) -> list[Measured]:
    """What people look at: pods and names as one row for all nodes, and one row for each way to the API."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for each in measured:
        if baselines or each.phase not in BASELINES:
            target = each.target if each.name.startswith("api-") else ""
            groups.setdefault((each.phase, each.name, target), []).append(each)
    return [_merged(name, target, phase, rows) for (phase, name, target), rows in groups.items()]


def _merged(name: str, target: str, phase: str, rows: Sequence[Measured]) -> Measured:
    misses: dict[str, int] = {}
    for each in rows:
        for cause, count in each.misses.items():
            misses[cause] = misses.get(cause, 0) + count
    return Measured(
        name=name,
        target=target,
        source=rows[0].source if len(rows) == 1 else "",
        phase=phase,
        sent=sum(each.sent for each in rows),
        ok=sum(each.ok for each in rows),
        misses=misses,
        slow=sum(each.slow for each in rows),
        retried=sum(each.retried for each in rows),
        reconnects=sum(each.reconnects for each in rows),
        longest_gap=max(each.longest_gap for each in rows),
        p50_ms=max(each.p50_ms for each in rows),
        p99_ms=max(each.p99_ms for each in rows),
        worst_ms=max(each.worst_ms for each in rows),
        ticks_late=sum(each.ticks_late for each in rows),
        tick_worst_ms=max(each.tick_worst_ms for each in rows),
    )


def _measured(series: Mapping[str, Any], phase: str, stats: Mapping[str, Any], source: str) -> Measured:
    known = {name: stats[name] for name in Measured.__slots__ if name in stats}
    return Measured(name=series["name"], target=series["target"], source=source, phase=phase, **known)


def _row(each: Measured) -> dict[str, Any]:
    return {**asdict(each), "missed": each.missed}
