"""What a run cost the users of its cluster, in a table and in the few lines people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubexm.cli.display.words import count, duration
from kubexm.cli.style import paint
from kubexm.components.probes.records import Cost, Measured, rows_of

__all__ = ["HEAD", "cost_lines", "cost_rows"]

HEAD = ("probe", "phase", "requests", "missed", "causes", "slow", "longest gap", "p50", "p99")
_NAMES = {
    "api-new": "API, new connections",
    "api-kept": "API, kept connections",
    "api-write": "API writes",
    "pod-start": "pod creation to Running",
    "pod-udp": "pod to pod, UDP",
    "pod-tcp": "pod to pod, TCP",
    "service": "ClusterIP service",
    "dns": "DNS",
}
_SHOWN = 5


def cost_rows(cost: Cost) -> list[tuple[str, ...]]:
    """A row for each kind of request; the phase is left out where there is one only."""
    rows = rows_of(cost.measured)
    several = len({each.phase for each in rows}) > 1
    return [_row(each, several) for each in rows]


def cost_lines(data: Mapping[str, Any]) -> list[str]:
    """The cost as a summary shows it."""
    cost = Cost.from_dict(data)
    if not cost.measured:
        reason = "; ".join(cost.problems) or "nothing was asked"
        return ["", f"What it cost the cluster's users was not measured: {reason}"]
    from kubexm.plan.render import columns

    lines = ["", paint("What users of the cluster experienced", "bold") + f" (measured from {cost.host})"]
    lines += ["  " + line for line in columns([[name.upper() for name in HEAD], *cost_rows(cost)])]
    lines += ["  " + line for line in _facts(cost)]
    lines += [f"  {paint('!', 'yellow')} {problem}" for problem in cost.problems]
    if cost.doubts:
        lines.append(f"  {paint('!', 'yellow')} the machine is too busy to judge: {'; '.join(cost.doubts)}")
    return lines


def _row(each: Measured, phases: bool) -> tuple[str, ...]:
    name = _NAMES.get(each.name, each.name)
    causes = ", ".join(f"{number} {cause}" for cause, number in sorted(each.misses.items()))
    return (
        f"{name}, {each.target}" if each.target else name,
        each.phase if phases else "",
        f"{each.sent:,}",
        f"{each.missed:,}",
        causes or "-",
        f"{each.slow:,}" if each.name != "pod-start" else "-",
        f"{each.longest_gap:.2f} s" if each.name != "pod-start" else "-",
        f"{each.p50_ms:g} ms",
        f"{each.p99_ms:g} ms" if each.name != "pod-start" else f"{each.worst_ms / 1000:.1f} s worst",
    )


def _facts(cost: Cost) -> list[str]:
    lines = []
    if cost.writes:
        lost, unverified = cost.writes.get("lost", []), cost.writes.get("unverified", 0)
        more = f", {unverified} could not be read back" if unverified else ""
        lines.append(f"writes: {cost.writes['acknowledged']:,} acknowledged, {len(lost)} lost{more}")
    if cost.watch:
        missed, causes = cost.watch.get("missed", []), cost.watch.get("causes", {})
        why = f" ({', '.join(f'{number} {cause}' for cause, number in sorted(causes.items()))})" if causes else ""
        lines.append(
            f"watch: {cost.watch['events']:,} events, {len(missed)} missed, "
            f"{count(cost.watch['reconnects'], 'reconnect')}{why}"
        )
    flapped = [f"{node['name']} {node['flaps']}x, {duration(node['not_ready_seconds'])}" for node in _flapping(cost)]
    lines.append(f"nodes that were not Ready: {', '.join(flapped) or 'none'}")
    if cost.containers:
        restarted, gone = cost.containers["restarted"], cost.containers["gone"]
        lines.append(f"containers restarted: {_listed(restarted)}" + (f"; pods gone: {_listed(gone)}" if gone else ""))
    if cost.leader_changes is not None:
        lines.append(f"leader changes of etcd: {cost.leader_changes}")
    return lines


def _flapping(cost: Cost) -> list[Mapping[str, Any]]:
    return [node for node in cost.nodes if node["flaps"]]


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} ({', '.join(names[:_SHOWN])}{rest})"
