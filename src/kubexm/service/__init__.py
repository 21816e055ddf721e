"""What the CLI and REST call. Adds no second way to run anything."""

from typing import TYPE_CHECKING

from kubexm.later import later

if TYPE_CHECKING:
    from kubexm.service.cluster import ClusterService
    from kubexm.service.fleet import CommandCancellation, FleetService
    from kubexm.service.reports import CommandReport, FactsReport, Planned, PlanObserver, ServiceOptions
    from kubexm.service.run_files import RunFiles, RunInfo, RunRequest

__all__ = [
    "ClusterService",
    "CommandCancellation",
    "CommandReport",
    "FactsReport",
    "FleetService",
    "PlanObserver",
    "Planned",
    "RunFiles",
    "RunInfo",
    "RunRequest",
    "ServiceOptions",
]

_PARTS = {
    "kubexm.service.cluster": ("ClusterService",),
    "kubexm.service.fleet": ("CommandCancellation", "FleetService"),
    "kubexm.service.reports": (
        "CommandReport",
        "FactsReport",
        "Planned",
        "PlanObserver",
        "ServiceOptions",
    ),
    "kubexm.service.run_files": (
        "RunFiles",
        "RunInfo",
        "RunRequest",
    ),
}

__getattr__ = later(__name__, _PARTS)
