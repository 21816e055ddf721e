"""What the CLI and REST call. Adds no second way to run anything."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubexm.service.cluster import ClusterService
    from kubexm.service.fleet import FleetService
    from kubexm.service.reports import CommandReport, FactsReport, Planned, PlanObserver, ServiceOptions
    from kubexm.service.run_files import RunFiles, RunInfo, RunRequest

__all__ = [
    "ClusterService",
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
    "kubexm.service.fleet": ("FleetService",),
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
_LATER = {name: part for part, names in _PARTS.items() for name in names}


def __getattr__(name: str) -> Any:
    # Each command pays for importing what it does, and for nothing else.
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found
