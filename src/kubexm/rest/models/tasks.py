"""Tasks and what happened in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kubexm.store.plans import PlanRecord
from kubexm.store.runs import HostRecord, NodeRecord
from kubexm.store.step_log import StepLog
from kubexm.store.tasks import Task

__all__ = [
    "ConnectingOut",
    "CostOut",
    "EventOut",
    "FailureOut",
    "HostResultOut",
    "MatrixOut",
    "NodeResultOut",
    "OutlineNode",
    "OutlineOut",
    "PlanOut",
    "SpanOut",
    "StepLogOut",
    "TaskOut",
    "TimelineOut",
]


class TaskOut(BaseModel):
    """Something that was asked for, and how far it came."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "20261116-075341-c9f4",
                    "cluster": "demo",
                    "action": "create",
                    "pipeline": "create",
                    "state": "running",
                    "changes": True,
                    "dry_run": False,
                    "request": {},
                    "spec_version": 1,
                    "actor": "ann",
                    "created": 1763280821.0,
                    "started": 1763280821.4,
                    "ended": None,
                    "error": None,
                    "resumed": 0,
                    "seq": 128,
                    "units": 412,
                    "tally": {"succeeded": 60},
                    "plan": None,
                    "resumable": False,
                }
            ]
        }
    )

    id: str
    cluster: str
    action: str
    pipeline: str
    state: str = Field(description="queued, running, succeeded, partial, failed, cancelled or interrupted.")
    changes: bool = Field(description="Whether it may change the cluster.")
    dry_run: bool
    request: dict[str, Any]
    spec_version: int
    actor: str
    created: float
    started: float | None
    ended: float | None
    error: dict[str, Any] | None = Field(description="Why it could not run, as message and hint; null if it could.")
    resumed: int = Field(description="How often it was resumed.")
    seq: int = Field(description="The last event of its journal that is in the store.")
    units: int = Field(description="How many (node, host) there are.")
    tally: dict[str, int] = Field(description="How many (node, host) are in each final state so far.")
    plan: str | None = Field(description="The plan it made, or carries out.")
    resumable: bool

    @classmethod
    def of(cls, task: Task) -> TaskOut:
        """As it goes out."""
        over = task.state in ("partial", "failed", "cancelled", "interrupted")
        return cls(
            id=task.id,
            cluster=task.cluster,
            action=task.action,
            pipeline=task.pipeline,
            state=task.state.value,
            changes=task.changes,
            dry_run=task.dry_run,
            request=dict(task.request),
            spec_version=task.spec_version,
            actor=task.actor,
            created=task.created,
            started=task.started,
            ended=task.ended,
            error=dict(task.error) or None,
            resumed=task.resumed,
            seq=task.seq,
            units=task.units,
            tally=dict(task.tally),
            plan=task.plan or None,
            resumable=over and not task.dry_run and task.action not in ("plan", "facts"),
        )


class NodeResultOut(BaseModel):
    """How a node stands, over its hosts."""

    node: str
    state: str = Field(description="The worst of its hosts' states.")
    tally: dict[str, int]
    started: float | None
    ended: float | None

    @classmethod
    def of(cls, record: NodeRecord) -> NodeResultOut:
        """As it goes out."""
        return cls(**{name: getattr(record, name) for name in NodeRecord.__slots__})


class HostResultOut(BaseModel):
    """How one (node, host) ended."""

    node: str
    host: str
    seq: int
    state: str
    started: float | None
    ended: float | None
    attempts: int
    error: str
    hint: str
    root_cause: list[str] | None = Field(description="For a blocked one: the node and host that failed.")
    more: dict[str, Any] = Field(
        description="What else there is: reason, prediction, diff, warnings, waited, command, exit_code."
    )

    @classmethod
    def of(cls, record: HostRecord) -> HostResultOut:
        """As it goes out."""
        names = [name for name in HostRecord.__slots__ if not name.startswith("root_")]
        root = [record.root_node, record.root_host] if record.root_node or record.root_host else None
        return cls(**{name: getattr(record, name) for name in names}, root_cause=root)


class FailureOut(HostResultOut):
    """A root cause."""

    blocked: int = Field(default=0, description="How many (node, host) could not begin because of it.")

    @classmethod
    def of(cls, record: HostRecord, *, blocked: int = 0) -> FailureOut:
        """As it goes out."""
        return cls(**HostResultOut.of(record).model_dump(), blocked=blocked)


class CostOut(BaseModel):
    """What users of the cluster experienced during a run."""

    cost: dict[str, Any] | None = Field(description="By probe, target and phase; null if nothing was measured.")


class MatrixOut(BaseModel):
    """Every (node, host) in little space: for each node one letter for each host."""

    nodes: list[str]
    hosts: list[str]
    letters: dict[str, str] = Field(description="What each letter stands for; `.` is not on that host, `-` not ended.")
    rows: list[str] = Field(description="For each node, in order, a letter for each host, in order.")
    seq: int = Field(description="The last event that is in it: follow from there.")


class OutlineNode(BaseModel):
    """One node, without contents."""

    id: str = Field(examples=["etcd.install.start"])
    does: str = Field(description="The state it brings about, in words.")
    hosts: int = Field(description="On how many hosts.")
    host: str | None = Field(description="Which, if it is one.")
    optional: bool
    on_demand: bool
    closes: str | None = Field(description="The node it closes: once that has run, it runs in any case.")
    excluded: str | None = Field(description="Why it is left out; null if it is not.")


class OutlineOut(BaseModel):
    """What a graph looks like."""

    name: str
    units: int
    hosts: int
    nodes: list[OutlineNode]
    links: list[tuple[int, int, bool]] = Field(
        description="Each (from, to, same host): the second node, by its place in the list, waits for the first."
    )


class StepLogOut(BaseModel):
    """What one (node, host) printed, and how it ended."""

    seq: int
    node: str
    host: str
    state: str
    stdout: str
    stderr: str
    error: str
    hint: str
    started: float | None
    ended: float | None

    @classmethod
    def of(cls, log: StepLog) -> StepLogOut:
        """As it goes out."""
        return cls(**{name: getattr(log, name) for name in StepLog.__slots__})


class ConnectingOut(BaseModel):
    """How far the hosts of a task are that is being planned."""

    hosts: int = Field(description="How many are asked; 0 before that, and once the task has ended.")
    ready: int = Field(description="How many are connected and have told their facts.")
    waiting: list[str] = Field(description="Those that are waited for.")
    failed: list[str] = Field(description="Those that cannot be reached.")

    @classmethod
    def of(cls, hosts: Mapping[str, str]) -> ConnectingOut:
        """By how far each is."""
        return cls(
            hosts=len(hosts),
            ready=sum(state == "ready" for state in hosts.values()),
            waiting=[host for host, state in hosts.items() if state in ("connecting", "connected")],
            failed=[host for host, state in hosts.items() if state == "failed"],
        )


class EventOut(BaseModel):
    """One event of a journal; the same as the stream of events has."""

    seq: int
    time: float
    kind: str = Field(examples=["unit.done"])
    node: str
    host: str
    data: dict[str, Any]


class SpanOut(BaseModel):
    """One (node, host) in time."""

    node: str
    host: str
    state: str
    started: float
    ended: float
    busy: float
    critical: bool = Field(description="On the critical path.")


class TimelineOut(BaseModel):
    """Where the time went."""

    started: float
    ended: float
    longest: float = Field(description="Seconds of the longest path through the graph.")
    added: float = Field(description="Seconds of kubexm's own along the critical path.")
    spans: list[SpanOut]


class PlanOut(BaseModel):
    """A plan that was made."""

    id: str
    cluster: str
    pipeline: str
    spec_version: int
    created: float
    created_by: str
    offline: bool
    changes: bool
    nodes: int
    units: int
    digest: str

    @classmethod
    def of(cls, record: PlanRecord) -> PlanOut:
        """As it goes out."""
        return cls(**{name: getattr(record, name) for name in PlanRecord.__slots__ if name != "body"})
