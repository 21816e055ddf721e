"""How a run ended, in the few lines people read: what changed, every root cause once, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubexm.cli.display.words import count, duration
from kubexm.cli.style import paint
from kubexm.errors import telling_lines
from kubexm.plan import GraphExecutionResult, HostResult, NodeResult, Prediction, RunStatus, State
from kubexm.plan.render import short_hosts

__all__ = ["Cause", "Reason", "causes", "result_data", "summary_lines"]

_MOST_CHANGES = 20
_MOST_LINES = 6
_MOST_REASONS = 10
_MOST_DIFF = 60
_INDENT = "    "
_SIGNS = {Prediction.CHANGE: ("~", "yellow"), Prediction.UNKNOWN: ("?", "cyan"), Prediction.WAIT: ("…", "dim")}


@dataclass(slots=True)
class Reason:
    """What some hosts said in the same words."""

    result: HostResult
    """Of the first of them."""
    hosts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cause:
    """One node that went wrong, on all the hosts where it did."""

    node: str
    step: str
    state: State
    optional: bool
    reasons: list[Reason] = field(default_factory=list)
    blocked: int = 0
    """How many units could not be done because of it."""

    @property
    def hosts(self) -> list[str]:
        """Everywhere it went wrong."""
        return [host for reason in self.reasons for host in reason.hosts]


def causes(result: GraphExecutionResult) -> list[Cause]:
    """Every root cause once, in the plan's order."""
    found: dict[tuple[str, State], Cause] = {}
    reasons: dict[tuple[str, State, str, str], Reason] = {}
    of_unit: dict[tuple[str, str], Cause] = {}
    for node in result.nodes.values():
        for each in node.hosts.values():
            if each.state not in (State.FAILED, State.INTERRUPTED):
                continue
            cause = found.setdefault((node.id, each.state), Cause(node.id, node.step, each.state, node.optional))
            words = (each.error.message, each.error.hint) if each.error else ("", "")
            key = (node.id, each.state, *words)
            if key not in reasons:
                reasons[key] = Reason(each)
                cause.reasons.append(reasons[key])
            reasons[key].hosts.append(each.host)
            of_unit[node.id, each.host] = cause
    for _, each in result.results():
        if each.root_cause is not None and each.root_cause in of_unit:
            of_unit[each.root_cause].blocked += 1
    return list(found.values())


def summary_lines(
    result: GraphExecutionResult, *, logs: Path | None = None, resume: str = "", verbose: int = 0
) -> list[str]:
    """The whole summary."""
    lines = ["", _headline(result)]
    if result.dry_run:
        lines += _predictions(result)
    elif result.changed:
        lines += _changes(result, verbose)
    lines += _systems(result)
    lines += _warnings(result)
    lines += _lost(result)
    for cause in causes(result):
        lines += ["", *_cause(cause, logs, result.run)]
    lines += _undone(result)
    if resume and not result.dry_run and result.status is not RunStatus.SUCCEEDED:
        lines += ["", f"To go on where this stopped: {paint(resume, 'bold')}"]
    return lines


def _headline(result: GraphExecutionResult) -> str:
    counts = result.count()
    took = duration(result.ended - result.started)
    if result.dry_run and result.status is RunStatus.SUCCEEDED:
        return f"{result.name}: {paint('dry run', 'bold')} after {took}: {_predicted(result)}"
    waited = sum(each.waited and each.state is State.SUCCEEDED for _, each in result.results())
    changed = counts[State.SUCCEEDED] - waited
    parts = [
        f"{changed:,} changed" if changed else "",
        f"{waited:,} waited for" if waited else "",
        f"{counts[State.SATISFIED]:,} already so" if counts[State.SATISFIED] else "",
        f"{counts[State.FAILED]:,} failed" if counts[State.FAILED] else "",
        f"{counts[State.INTERRUPTED]:,} stopped midway" if counts[State.INTERRUPTED] else "",
        f"{counts[State.BLOCKED]:,} blocked" if counts[State.BLOCKED] else "",
        f"{counts[State.CANCELLED]:,} never started" if counts[State.CANCELLED] else "",
        f"{counts[State.EXCLUDED]:,} left out" if counts[State.EXCLUDED] else "",
    ]
    sums = ", ".join(part for part in parts if part) or "nothing to do"
    match result.status:
        case RunStatus.SUCCEEDED if not result.changed:
            word, colour = "nothing changed, all is as it should be", "green"
        case RunStatus.SUCCEEDED:
            word, colour = "done", "green"
        case RunStatus.PARTIAL:
            word, colour = f"done, except for {count(len(result.lost_hosts), 'lost host')}", "yellow"
        case RunStatus.CANCELLED:
            word, colour = "cancelled", "yellow"
        case RunStatus.INTERRUPTED:
            word, colour = "stopped", "red"
        case _:
            word, colour = "failed", "red"
    return f"{result.name}: {paint(word, colour, 'bold')} after {took}: {sums}"


def _predicted(result: GraphExecutionResult) -> str:
    numbers = dict.fromkeys(Prediction, 0)
    for _, each in result.results():
        if each.prediction is not None:
            numbers[each.prediction] += 1
    if not numbers[Prediction.CHANGE] and not numbers[Prediction.UNKNOWN]:
        return "nothing would change"
    words = {
        Prediction.CHANGE: "would change",
        Prediction.UNKNOWN: "cannot be known yet",
        Prediction.WAIT: "would be waited for",
        Prediction.NO_CHANGE: "would not",
    }
    return ", ".join(f"{numbers[each]:,} {words[each]}" for each in words if numbers[each])


def _predictions(result: GraphExecutionResult) -> list[str]:
    """What is not as it should be, with the diff of contents; once where it is the same on several hosts."""
    lines: list[str] = []
    for node in result.nodes.values():
        groups: dict[tuple[Prediction, str, str], list[str]] = {}
        for each in node.hosts.values():
            if each.prediction is not None and each.prediction in _SIGNS:
                groups.setdefault((each.prediction, each.reason, each.diff), []).append(each.host)
        for (prediction, reason, diff), hosts in groups.items():
            sign = paint(*_SIGNS[prediction])
            about = reason if prediction is Prediction.UNKNOWN or reason else node.step
            lines.append(f"  {sign} {node.id} on {short_hosts(hosts)}: {about}")
            lines += _diff(diff)
    return lines


def _diff(diff: str) -> list[str]:
    lines = diff.splitlines()
    shown = [_INDENT + "  " + paint(line, *_diff_colour(line)) for line in lines[:_MOST_DIFF]]
    if len(lines) > _MOST_DIFF:
        shown.append(f"{_INDENT}  … and {len(lines) - _MOST_DIFF} more lines")
    return shown


def _diff_colour(line: str) -> tuple[str, ...]:
    if line.startswith(("+++", "---")):
        return ("bold",)
    return {"+": ("green",), "-": ("red",), "@": ("cyan",)}.get(line[:1], ())


def _changes(result: GraphExecutionResult, verbose: int) -> list[str]:
    changed = [(node, _changed_hosts(node)) for node in result.nodes.values()]
    lines = [
        f"  {paint('+', 'green')} {node.id} on {short_hosts(hosts)}: {node.step}" for node, hosts in changed if hosts
    ]
    if len(lines) > _MOST_CHANGES and not verbose:
        more = len(lines) - _MOST_CHANGES + 1
        lines = [*lines[: _MOST_CHANGES - 1], f"  … and {more} more (kubexm runs show {result.run})"]
    return lines


def _changed_hosts(node: NodeResult) -> list[str]:
    return [each.host for each in node.hosts.values() if each.state is State.SUCCEEDED and not each.waited]


def _systems(result: GraphExecutionResult) -> list[str]:
    """Which hosts run a tested system, one that is expected to work, or one that is refused: for preflight."""
    node = result.nodes.get("preflight.system.os")
    if result.name != "preflight" or node is None:
        return []
    groups: dict[str, list[str]] = {}
    for each in node.hosts.values():
        if each.state is State.FAILED:
            groups.setdefault("refused", []).append(each.host)
        elif each.state.good:
            groups.setdefault("not tested" if each.warnings else "tested", []).append(each.host)
    found = [f"{short_hosts(groups[word])} {word}" for word in ("tested", "not tested", "refused") if word in groups]
    return [f"  operating systems: {'; '.join(found)}"] if found else []


def _warnings(result: GraphExecutionResult) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for node, each in result.results():
        for warning in each.warnings:
            groups.setdefault((node, warning), []).append(each.host)
    return [
        f"  {paint('!', 'yellow')} {short_hosts(hosts)}: {warning} ({node})"
        for (node, warning), hosts in groups.items()
    ]


def _lost(result: GraphExecutionResult) -> list[str]:
    """Hosts that dropped out: those with the same reason on one line, each hint once."""
    by_hint: dict[str, dict[tuple[str, str], list[str]]] = {}
    for word, hosts in (("lost", result.lost_hosts), ("unreached", result.unreached)):
        for host, reason in hosts.items():
            groups = by_hint.setdefault(result.hints.get(host, ""), {})
            groups.setdefault((word, reason.removeprefix(f"{host} could not be reached: ")), []).append(host)
    lines: list[str] = []
    for hint, groups in by_hint.items():
        lines += [f"  {paint(word, 'red')} {short_hosts(hosts)}: {reason}" for (word, reason), hosts in groups.items()]
        lines += _hint_lines(hint)
    return lines


def _cause(cause: Cause, logs: Path | None, run: str) -> list[str]:
    sign = paint("✗ stopped" if cause.state is State.INTERRUPTED else "✗ failed", "red", "bold")
    if cause.optional:
        sign = paint("! failed, but optional:", "yellow")
    lines = [f"{sign} {paint(cause.node, 'bold')} on {short_hosts(cause.hosts)}: {cause.step}"]
    hints = {_hint_of(reason) for reason in cause.reasons}
    for reason in cause.reasons[:_MOST_REASONS]:
        lines += _reason(reason, name_hosts=len(cause.reasons) > 1, with_hint=len(hints) > 1)
    if len(cause.reasons) > _MOST_REASONS:
        left = sum(len(reason.hosts) for reason in cause.reasons[_MOST_REASONS:])
        lines.append(f"{_INDENT}… and {count(left, 'more host', 'more hosts')} (kubexm runs logs {run} {cause.node})")
    if len(hints) == 1:
        lines += _hint_lines(hints.pop())
    if cause.blocked:
        lines.append(f"{_INDENT}{count(cause.blocked, 'unit')} could not be done because of this")
    if logs is not None:
        log = logs / f"{cause.node}@{cause.hosts[0]}.log"
        if log.exists():
            lines.append(f"{_INDENT}the whole output: {log}")
    return lines


def _reason(reason: Reason, *, name_hosts: bool, with_hint: bool) -> list[str]:
    result = reason.result
    error = result.error
    where = f"{short_hosts(reason.hosts)}: " if name_hosts else ""
    if error is None:
        return [f"{_INDENT}{where}stopped midway"] if where else []
    first, *more = error.message.splitlines() or [""]
    lines = [f"{_INDENT}{where}{first}", *(_INDENT + line for line in more)]
    if error.command:
        lines.append(f"{_INDENT}command:   {' '.join(error.command.split())}")
    if error.exit_code is not None:
        lines.append(f"{_INDENT}exit code: {error.exit_code}")
    told = telling_lines(error.stderr or error.stdout, most=_MOST_LINES)
    lines += [f"{_INDENT}  | {line}" for line in told if line not in error.message]
    if result.attempts > 1:
        lines.append(f"{_INDENT}after {result.attempts} attempts")
    return lines + (_hint_lines(error.hint) if with_hint else [])


def _hint_of(reason: Reason) -> str:
    return reason.result.error.hint if reason.result.error is not None else ""


def _hint_lines(hint: str) -> list[str]:
    return [f"{_INDENT}{paint('→', 'cyan')} {line}" for line in hint.splitlines()]


def _undone(result: GraphExecutionResult) -> list[str]:
    tried = [(node, each) for node, each in result.results() if each.rolled_back is not None]
    if not tried:
        return []
    left = [(node, each.host) for node, each in tried if not each.rolled_back]
    lines = ["", f"Rolled back {count(len(tried) - len(left), 'unit')}."]
    if left:
        lines.append(f"{count(len(left), 'unit')} could not be undone:")
        lines += [f"  {node} on {short_hosts(hosts)}" for node, hosts in _by_node(left).items()]
    return lines


def _by_node(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node, host in pairs:
        found.setdefault(node, []).append(host)
    return found


def result_data(result: GraphExecutionResult, *, exit_code: int, resume: str = "") -> dict[str, Any]:
    """The result for programs: the last line of a stream of events."""
    counts = {state.value: number for state, number in result.count().items() if number}
    return {
        "run": result.run,
        "name": result.name,
        "status": result.status.value,
        "exit_code": exit_code,
        "dry_run": result.dry_run,
        "changed": result.changed,
        "seconds": round(result.ended - result.started, 3),
        "units": counts,
        "lost_hosts": dict(result.lost_hosts),
        "unreached": dict(result.unreached),
        "hints": dict(result.hints),
        "causes": [
            {
                "node": cause.node,
                "step": cause.step,
                "hosts": cause.hosts,
                "state": cause.state.value,
                "optional": cause.optional,
                "blocked": cause.blocked,
                "reasons": [
                    {"hosts": reason.hosts, "error": reason.result.error.to_dict() if reason.result.error else None}
                    for reason in cause.reasons
                ],
            }
            for cause in causes(result)
        ],
        **({"resume": resume} if resume and result.status is not RunStatus.SUCCEEDED and not result.dry_run else {}),
    }
