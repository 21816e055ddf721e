"""What is known about a host: the values, how they are gathered in one round trip, and what is assumed without."""

from kubexm.runner.facts.assumed import assumed_facts
from kubexm.runner.facts.gather import fact_script, gather_facts
from kubexm.runner.facts.model import (
    Clock,
    ClusterMarker,
    Cpu,
    Disk,
    Facts,
    Filesystem,
    Interface,
    Kernel,
    LeaseLine,
    Memory,
    Network,
    Os,
    Port,
    Presence,
    Program,
    Programs,
    Route,
    Security,
    SwapDevice,
    Systemd,
    Unit,
)
from kubexm.runner.facts.parse import normal_arch, parse_facts
from kubexm.runner.facts.programs import PROGRAMS

__all__ = [
    "PROGRAMS",
    "Clock",
    "ClusterMarker",
    "Cpu",
    "Disk",
    "Facts",
    "Filesystem",
    "Interface",
    "Kernel",
    "LeaseLine",
    "Memory",
    "Network",
    "Os",
    "Port",
    "Presence",
    "Program",
    "Programs",
    "Route",
    "Security",
    "SwapDevice",
    "Systemd",
    "Unit",
    "assumed_facts",
    "fact_script",
    "gather_facts",
    "normal_arch",
    "parse_facts",
]
