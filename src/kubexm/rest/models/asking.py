"""What can be asked to be done with a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from kubexm.rest.models.basics import In, Selector
from kubexm.service.wanted import Action, Wanted

__all__ = ["CreateIn", "DeleteIn", "PlanIn", "PreflightIn", "ProbeIn", "RunIn", "VerifyIn"]


class _RunIn(In):
    dry_run: bool = Field(default=False, description="Look only, and say what would be changed.")
    only: list[Selector] = Field(default=[], max_length=200, description="Only these nodes, tasks or modules.")
    skip: list[Selector] = Field(default=[], max_length=200, description="Not these nodes, tasks or modules.")
    rollback: bool = Field(default=False, description="After a failure, undo what this run changed.")
    accept_new_host_keys: bool = Field(default=False, description="Record keys of hosts seen for the first time.")
    parallel: int | None = Field(default=None, ge=1, le=10_000, description="How many steps may run at once.")
    ignore_errors: bool = Field(default=False, description="Report failures, and go on with all that can go on.")

    def wanted(self, cluster: str, action: Action, pipeline: str, **options: Any) -> Wanted:
        """What this asks the service for."""
        return Wanted(
            cluster=cluster,
            action=action,
            pipeline=pipeline,
            options={name: value for name, value in options.items() if value},
            dry_run=self.dry_run,
            only=tuple(self.only),
            skip=tuple(self.skip),
            rollback=self.rollback,
            accept_new_host_keys=self.accept_new_host_keys,
            parallel=self.parallel,
            ignore_errors=self.ignore_errors,
        )


class CreateIn(_RunIn):
    """Bring the cluster to what its spec says."""

    probes: Literal["none", "api", "full"] = Field(
        default="none", description="What to measure beside it if the cluster is running."
    )

    def wanted(self, cluster: str, action: Action, pipeline: str, **options: Any) -> Wanted:
        """What this asks the service for."""
        chosen = {} if self.probes == "none" else {"probes": self.probes}
        return super().wanted(cluster, action, pipeline, **options, **chosen)


class ProbeIn(In):
    """Measure what users of a running cluster experience."""

    duration: float = Field(default=60.0, ge=1, le=86_400, description="Seconds to measure.")
    baseline: float = Field(
        default=0.0, ge=0, le=86_400, description="Seconds to measure idle, and again with every core busy, first."
    )
    probes: Literal["api", "full"] = Field(default="full", description="The API only, or everything.")
    accept_new_host_keys: bool = Field(default=False, description="Record keys of hosts seen for the first time.")

    def wanted(self, cluster: str) -> Wanted:
        """What this asks the service for."""
        return Wanted(
            cluster=cluster,
            action=Action.PROBE,
            pipeline="probe",
            options={"duration": self.duration, "baseline": self.baseline, "probes": self.probes},
            accept_new_host_keys=self.accept_new_host_keys,
        )


class VerifyIn(_RunIn):
    """Prove that the cluster works."""

    probe: bool = Field(default=True, description="Also try it with pods that are removed afterwards.")

    def wanted(self, cluster: str, action: Action, pipeline: str, **options: Any) -> Wanted:
        """What this asks the service for."""
        made = super().wanted(cluster, action, pipeline, **options)
        return made if self.probe else replace(made, options={**made.options, "probe": False})


class RunIn(_RunIn):
    """Any pipeline by its name."""

    pipeline: str = Field(pattern=r"^[a-z][a-z-]{0,31}$", examples=["preflight"])


class PreflightIn(_RunIn):
    """Check the hosts."""

    fix: bool = Field(default=False, description="Mend what is safe to mend.")


class DeleteIn(_RunIn):
    """Give the hosts back as they were."""

    confirm: str = Field(max_length=63, description="The name of the cluster, to be sure.", examples=["demo"])
    keep_data: bool = False
    keep_runtime: bool = False


class PlanIn(In):
    """Plan a pipeline, and keep the plan for review."""

    pipeline: str = Field(default="create", pattern=r"^[a-z][a-z-]{0,31}$", examples=["preflight"])
    offline: bool = Field(default=False, description="Ask no host: plan from the spec and assumed facts alone.")
    only: list[Selector] = Field(default=[], max_length=200)
    skip: list[Selector] = Field(default=[], max_length=200)
    fix: bool = False
    accept_new_host_keys: bool = False
