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
    Route,
    Security,
    SwapDevice,
    Systemd,
    Unit,
)
from kubexm.runner.facts.parse import normal_arch, parse_facts

__all__ = [
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
