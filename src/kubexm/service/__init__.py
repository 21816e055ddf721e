"""What the CLI and REST call. Adds no second way to run anything."""

from typing import TYPE_CHECKING

from kubexm.later import later

if TYPE_CHECKING:
    from kubexm.service.cluster import ClusterService
    from kubexm.service.fleet import CommandCancellation, FleetService
    from kubexm.service.protocol import RunView, Service
    from kubexm.service.reports import CommandReport, FactsReport, Planned, PlanObserver, ServiceOptions, Watch
    from kubexm.service.run_files import RunFiles, RunInfo, RunRecord

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
    "RunRecord",
    "RunView",
    "Service",
    "ServiceOptions",
    "Watch",
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
        "Watch",
    ),
    "kubexm.service.protocol": ("RunView", "Service"),
    "kubexm.service.run_files": (
        "RunFiles",
        "RunInfo",
        "RunRecord",
    ),
}

__getattr__ = later(__name__, _PARTS)
