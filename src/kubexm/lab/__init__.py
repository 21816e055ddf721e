"""Real hosts on one machine: what `kubexm lab` makes and what tests run against."""

from __future__ import annotations

from kubexm.lab.flavours import DEFAULT, FLAVOURS, Flavour
from kubexm.lab.hosts import HostState, HostStatus, LabHost
from kubexm.lab.lab import BootedHost, Lab, lab_names
from kubexm.lab.systems import DEFAULT_SYSTEM, SYSTEMS, System

__all__ = [
    "DEFAULT",
    "DEFAULT_SYSTEM",
    "FLAVOURS",
    "SYSTEMS",
    "BootedHost",
    "Flavour",
    "HostState",
    "HostStatus",
    "Lab",
    "LabHost",
    "System",
    "lab_names",
]
