"""What the CLI and REST call. Adds no second way to run anything."""

from kubexm.service.cluster import ClusterService
from kubexm.service.reports import CommandReport, FactsReport, Planned, PlanObserver, ServiceOptions
from kubexm.service.run_files import RunFiles, RunInfo, RunRequest

__all__ = [
    "ClusterService",
    "CommandReport",
    "FactsReport",
    "PlanObserver",
    "Planned",
    "RunFiles",
    "RunInfo",
    "RunRequest",
    "ServiceOptions",
]
