"""What can be asked of the service for a cluster, and what of it may change the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubexm.pipeline import pipeline_for
from kubexm.plan import RunSpec
from kubexm.store.tasks import Task

__all__ = ["Kind", "Wanted", "makes_run"]


class Kind(StrEnum):
    """What is done with a spec."""

    RUN = "run"
    """The task is called as its pipeline."""
    APPLY = "apply"
    """A plan that was made before."""
    PLAN = "plan"
    FACTS = "facts"
    """Facts of the hosts; no spec."""


def makes_run(action: str) -> bool:
    """True if a task of this name makes a run, with a journal."""
    return action not in (Kind.PLAN, Kind.FACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One thing somebody wants done."""

    cluster: str
    kind: Kind = Kind.RUN
    spec: RunSpec | None = None
    offline: bool = False
    plan: str = ""

    @property
    def action(self) -> str:
        """What its task is called: a run as its pipeline."""
        return self.spec.pipeline if self.kind is Kind.RUN and self.spec is not None else self.kind.value

    @property
    def pipeline(self) -> str:
        """The pipeline it is about, if it is about one."""
        return "" if self.spec is None else self.spec.pipeline

    @property
    def dry_run(self) -> bool:
        """True if it is asked to change nothing."""
        return self.spec is not None and self.spec.dry_run

    def changes(self, planned: bool = True) -> bool:
        """True if it may change the cluster; UsageError if there is no such pipeline. `planned`: as the plan says."""
        if self.spec is None:
            return False
        if self.kind is Kind.APPLY:
            return planned and not self.dry_run
        made = pipeline_for(self.spec)
        return self.kind is Kind.RUN and made.changes and not self.dry_run

    def to_request(self) -> dict[str, Any]:
        """What is kept of it with the task: the spec, and how it is planned."""
        if self.spec is None:
            return {}
        return {"spec": self.spec.to_json(), **({"offline": True} if self.offline else {})}

    @classmethod
    def of(cls, task: Task) -> Wanted:
        """What a task was asked to do. FormatError if another version of kubexm queued it."""
        if task.action == Kind.FACTS:
            return cls(cluster=task.cluster, kind=Kind.FACTS)
        known = task.action in (Kind.APPLY, Kind.PLAN)
        return cls(
            cluster=task.cluster,
            kind=Kind(task.action) if known else Kind.RUN,
            spec=RunSpec.from_json(task.request.get("spec")),
            offline=bool(task.request.get("offline")),
            plan=task.plan if task.action == Kind.APPLY else "",
        )
