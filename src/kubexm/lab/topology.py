"""How many hosts a lab has and which of them are control planes. Must not know how hosts are made."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubexm.errors import UsageError
from kubexm.lab.network import MOST_HOSTS

__all__ = ["Topology", "decide"]

_DEFAULT_HOSTS = 5
_ENOUGH_FOR_HA = 4  # three control planes and at least one worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """`control_planes` hosts that also run etcd, then `workers`."""

    control_planes: int
    workers: int

    @property
    def hosts(self) -> int:
        return self.control_planes + self.workers


def decide(topology: str | None, hosts: int | None) -> Topology:
    """The topology meant by `single`, `ha` or `N+M` and a number of hosts, either of which may be left out."""
    if hosts is not None and not 1 <= hosts <= MOST_HOSTS:
        raise UsageError(f"A lab cannot have {hosts} hosts.", hint=f"It can have from 1 to {MOST_HOSTS}.")
    if topology is None:
        count = hosts or _DEFAULT_HOSTS
        planes = 3 if count >= _ENOUGH_FOR_HA else 1
        return Topology(control_planes=planes, workers=count - planes)
    if topology == "single":
        chosen = Topology(control_planes=1, workers=0)
    elif topology == "ha":
        chosen = Topology(control_planes=3, workers=max(0, (hosts or _DEFAULT_HOSTS) - 3))
    else:
        chosen = _counted(topology)
    if hosts is not None and chosen.hosts != hosts:
        raise UsageError(
            f"The topology {topology!r} has {chosen.hosts} hosts, but --hosts says {hosts}.",
            hint="Leave one of the two out.",
        )
    return chosen


def _counted(topology: str) -> Topology:
    match = re.fullmatch(r"(\d{1,3})\+(\d{1,3})", topology)
    if match is None or int(match[1]) == 0:
        raise UsageError(
            f"{topology!r} is not a topology.",
            hint="Use single, ha, or N+M for N control planes and M workers, such as 3+2.",
        )
    chosen = Topology(control_planes=int(match[1]), workers=int(match[2]))
    if chosen.hosts > MOST_HOSTS:
        raise UsageError(f"A lab cannot have {chosen.hosts} hosts.", hint=f"It can have from 1 to {MOST_HOSTS}.")
    return chosen
