"""What a lab is to consist of: from what was asked for to its record. Must not know how any of it is made."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

from kubexm.errors import UsageError
from kubexm.lab.disk import SMALLEST
from kubexm.lab.flavours import DEFAULT, flavour
from kubexm.lab.state import HostRecord, LabRecord
from kubexm.lab.topology import Topology, decide

__all__ = ["Wanted", "first_record", "grown_record"]

_DISK = 20 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for; what was not is None."""

    hosts: int | None = None
    topology: str | None = None
    flavours: Mapping[str, str] = field(default_factory=dict)
    disk: int | None = None


def first_record(name: str, wanted: Wanted, *, prefix: str, subnet: IPv4Network) -> LabRecord:
    """The record of a new lab."""
    topology = decide(wanted.topology, wanted.hosts)
    disk = _DISK if wanted.disk is None else wanted.disk
    if disk < SMALLEST:
        raise UsageError(f"A disk of {disk} bytes is too small for a host.", hint="Give it at least 256M.")
    _check_flavours(wanted.flavours, topology.hosts)
    return LabRecord(
        name=name,
        prefix=prefix,
        subnet=subnet,
        control_planes=topology.control_planes,
        disk=disk,
        hosts=tuple(_host(number, wanted) for number in range(1, topology.hosts + 1)),
    )


def grown_record(record: LabRecord, wanted: Wanted) -> LabRecord:
    """The record of a lab that exists, with the workers added that are asked for; nothing else can change."""
    topology = _grown_topology(record, wanted)
    has = Topology(control_planes=record.control_planes, workers=len(record.hosts) - record.control_planes)
    if topology.hosts < has.hosts or topology.control_planes != has.control_planes:
        raise UsageError(
            f"The lab {record.name!r} has {_counted(has)}; only workers can be added to it.",
            hint=f"Take it down first: `kubexm lab down {record.name}`.",
        )
    if wanted.disk not in (None, record.disk):
        raise UsageError(
            f"The disks of the lab {record.name!r} have {record.disk} bytes each.",
            hint="Leave --disk out, or take the lab down first.",
        )
    _check_flavours(wanted.flavours, topology.hosts)
    for host in record.hosts:
        if wanted.flavours.get(host.name, host.flavour) != host.flavour:
            raise UsageError(
                f"{host.name} is a {host.flavour} host and stays one.",
                hint=f"Give new hosts a flavour, or take the lab down first: `kubexm lab down {record.name}`.",
            )
    added = tuple(_host(number, wanted) for number in range(len(record.hosts) + 1, topology.hosts + 1))
    return replace(record, hosts=record.hosts + added)


def _grown_topology(record: LabRecord, wanted: Wanted) -> Topology:
    if wanted.topology is not None:
        return decide(wanted.topology, wanted.hosts)
    count = len(record.hosts) if wanted.hosts is None else decide(None, wanted.hosts).hosts
    return Topology(control_planes=record.control_planes, workers=count - record.control_planes)


def _host(number: int, wanted: Wanted) -> HostRecord:
    name = f"n{number}"
    chosen = flavour(wanted.flavours.get(name, DEFAULT))
    return HostRecord(name=name, number=number, flavour=chosen.name, machine_id=secrets.token_hex(16))


def _check_flavours(flavours: Mapping[str, str], hosts: int) -> None:
    for host, name in flavours.items():
        flavour(name)
        match = re.fullmatch(r"n([1-9]\d{0,2})", host)
        if match is None or int(match[1]) > hosts:
            raise UsageError(
                f"--flavour names {host!r}, which is not a host of this lab.", hint=f"Its hosts are n1 to n{hosts}."
            )


def _counted(topology: Topology) -> str:
    hosts = "1 host" if topology.hosts == 1 else f"{topology.hosts} hosts"
    return f"{hosts} ({topology.control_planes}+{topology.workers})"
