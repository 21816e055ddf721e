"""What can be asked of the service for a cluster, and what of it may change the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kubexm.errors import UsageError
from kubexm.pipeline import pipeline_named
from kubexm.store.tasks import Task

__all__ = ["Action", "Wanted"]


class Action(StrEnum):
    """The verbs. Those that are pipelines are called as the command line calls them."""

    CREATE = "create"
    DELETE = "delete"
    VERIFY = "verify"
    PREFLIGHT = "preflight"
    PROBE = "probe"
    RUN = "run"
    """Any other pipeline, by its name."""
    APPLY = "apply"
    """A plan that was made before."""
    PLAN = "plan"
    FACTS = "facts"


_LOOK = frozenset({Action.PLAN, Action.FACTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One thing somebody wants done."""

    cluster: str
    action: Action
    pipeline: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    rollback: bool = False
    offline: bool = False
    accept_new_host_keys: bool = False
    parallel: int | None = None
    ignore_errors: bool = False
    plan: str = ""

    @property
    def runs(self) -> bool:
        """True if it makes a run, with a journal."""
        return self.action not in _LOOK

    def changes(self, planned: bool = True) -> bool:
        """True if it may change the cluster; UsageError if there is no such pipeline. `planned`: as the plan says."""
        if self.action is Action.FACTS:
            return False
        if self.action is Action.APPLY:
            return planned and not self.dry_run
        try:
            made = pipeline_named(self.pipeline, **self.options)
        except TypeError as error:
            raise UsageError(f"{self.pipeline} has no such option: {error}") from error
        return self.action is not Action.PLAN and made.changes and not self.dry_run

    def to_request(self) -> dict[str, Any]:
        """What is kept of it with the task."""
        names = ("options", "only", "skip", "rollback", "offline", "accept_new_host_keys", "parallel", "ignore_errors")
        return {name: value for name in names if (value := getattr(self, name))}

    @classmethod
    def of(cls, task: Task) -> Wanted:
        """What a task was asked to do."""
        kept = dict(task.request)
        for name in ("only", "skip"):
            kept[name] = tuple(kept.get(name, ()))
        return cls(
            cluster=task.cluster,
            action=Action(task.action),
            pipeline=task.pipeline,
            dry_run=task.dry_run,
            plan=task.plan if task.action == Action.APPLY else "",
            **kept,
        )
