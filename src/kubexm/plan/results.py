"""What happened: returned bottom to top, for each (node, host), each node and the whole graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kubexm.errors import CommandError, KubexmError
from kubexm.redact import Redactor

__all__ = [
    "ErrorInfo",
    "GraphExecutionResult",
    "HostResult",
    "NodeResult",
    "Prediction",
    "RunStatus",
    "State",
]


class State(StrEnum):
    """Final states. Every (node, host) ends in exactly one."""

    SUCCEEDED = "succeeded"
    """It was not so, and now it is."""
    SATISFIED = "satisfied"
    """It was so already; nothing was changed."""
    FAILED = "failed"
    BLOCKED = "blocked"
    """Something upstream failed; `root_cause` names it."""
    EXCLUDED = "excluded"
    """Not required, not demanded, or filtered out."""
    CANCELLED = "cancelled"
    """Never started."""
    INTERRUPTED = "interrupted"
    """Stopped midway."""

    @property
    def good(self) -> bool:
        """True for the states that count as success."""
        return self in _GOOD


_GOOD = frozenset({State.SUCCEEDED, State.SATISFIED, State.EXCLUDED})


class Prediction(StrEnum):
    """What a dry run says of a (node, host)."""

    NO_CHANGE = "no change"
    CHANGE = "change"
    UNKNOWN = "unknown"
    """It reads what something before it would change."""
    WAIT = "wait"
    """It is not so yet, and would be waited for: that changes nothing."""


class RunStatus(StrEnum):
    """How a run as a whole ended."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """Done, except for hosts lost within their budget."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """An error as plain data: what people need to understand it, secrets redacted."""

    kind: str
    message: str
    hint: str = ""
    command: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""

    @classmethod
    def of(cls, error: BaseException, redact: Redactor | None = None) -> ErrorInfo:
        """The error's own words; for a bug, its type and message."""
        mask = redact or Redactor()
        if not isinstance(error, KubexmError):
            return cls(
                kind=type(error).__name__,
                message=mask(f"internal error: {type(error).__name__}: {error}"),
                hint="this is a bug in kubexm or in the step; run with --debug to see where",
            )
        command, exit_code, stdout, stderr = "", None, "", ""
        if isinstance(error, CommandError):
            command, exit_code = mask(error.command), error.exit_code
            stdout, stderr = mask(error.stdout), mask(error.stderr)
        return cls(
            kind=type(error).__name__,
            message=mask(error.message),
            hint=mask(error.hint),
            command=command,
            exit_code=exit_code,
            stdout=stdout,
            stderr=stderr,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON data without empty fields."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) not in ("", None)}


class HostResult(NamedTuple):
    """How one (node, host) ended. A tuple, since runs make a hundred thousand: a frozen dataclass costs four times."""

    host: str
    state: State
    started: float | None = None
    ended: float | None = None
    busy: float = 0.0
    """Seconds in which a command or a transfer was under way."""
    attempts: int = 0
    stdout: str = ""
    stderr: str = ""
    error: ErrorInfo | None = None
    root_cause: tuple[str, str] | None = None
    """For BLOCKED: the (node, host) that failed."""
    reason: str = ""
    """Why it was excluded, or not satisfied in a dry run."""
    prediction: Prediction | None = None
    diff: str = ""
    warnings: tuple[str, ...] = ()
    rolled_back: bool | None = None
    """True or False once a rollback was tried."""
    waited: bool = False
    """It changes nothing, ever: all it did was to wait."""
    actor: str = ""
    """The host it acted from, if not the one it is about."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.started) if self.started is not None and self.ended is not None else 0.0


@dataclass(frozen=True, slots=True)
class NodeResult:
    """How a node ended on each of its hosts."""

    id: str
    step: str
    hosts: Mapping[str, HostResult]
    optional: bool = False

    @property
    def state(self) -> State:
        """The worst of its hosts' states."""
        states = {result.state for result in self.hosts.values()}
        return next((state for state in _WORST_FIRST if state in states), State.EXCLUDED)


_WORST_FIRST = (
    State.FAILED,
    State.INTERRUPTED,
    State.BLOCKED,
    State.CANCELLED,
    State.SUCCEEDED,
    State.SATISFIED,
    State.EXCLUDED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphExecutionResult:
    """How the whole graph ended."""

    run: str
    name: str
    status: RunStatus
    started: float
    ended: float
    nodes: Mapping[str, NodeResult]
    lost_hosts: Mapping[str, str] = field(default_factory=dict)
    """Hosts that dropped out within their budget, and why."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Hosts that could not be reached at the start and had no budget, and why."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to do about hosts that could not be reached."""
    dry_run: bool = False

    def results(self) -> Iterator[tuple[str, HostResult]]:
        """Every (node id, host result), in the graph's order."""
        for node in self.nodes.values():
            for result in node.hosts.values():
                yield node.id, result

    def count(self) -> dict[State, int]:
        """How many (node, host) ended in each state."""
        counts = dict.fromkeys(State, 0)
        for _, result in self.results():
            counts[result.state] += 1
        return counts

    @property
    def changed(self) -> bool:
        """True if anything was changed, or would be in a dry run."""
        return any(
            result.prediction in (Prediction.CHANGE, Prediction.UNKNOWN)
            if self.dry_run
            else not result.waited and (result.state is State.SUCCEEDED or result.attempts > 0)
            for _, result in self.results()
        )

    def failures(self) -> list[tuple[str, HostResult]]:
        """The root causes only: what itself failed or was stopped."""
        return [item for item in self.results() if item[1].state in (State.FAILED, State.INTERRUPTED)]
