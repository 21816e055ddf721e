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
from kubexm.lab.systems import DEFAULT_SYSTEM, system
from kubexm.lab.topology import Topology, decide

__all__ = ["Wanted", "first_record", "grown_record"]

_DISK = 20 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for; what was not is None."""

    hosts: int | None = None
    topology: str | None = None
    system: str | None = None
    """Of every host that `systems` does not name."""
    systems: Mapping[str, str] = field(default_factory=dict)
    flavours: Mapping[str, str] = field(default_factory=dict)
    disk: int | None = None


def first_record(name: str, wanted: Wanted, *, prefix: str, subnet: IPv4Network) -> LabRecord:
    """The record of a new lab."""
    topology = decide(wanted.topology, wanted.hosts)
    disk = _DISK if wanted.disk is None else wanted.disk
    if disk < SMALLEST:
        raise UsageError(f"A disk of {disk} bytes is too small for a host.", hint="Give it at least 256M.")
    _check_kinds(wanted, topology.hosts)
    return LabRecord(
        name=name,
        prefix=prefix,
        subnet=subnet,
        control_planes=topology.control_planes,
        disk=disk,
        hosts=tuple(_host(number, wanted, DEFAULT_SYSTEM) for number in range(1, topology.hosts + 1)),
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
    _check_kinds(wanted, topology.hosts)
    for host in record.hosts:
        if wanted.flavours.get(host.name, host.flavour) != host.flavour:
            raise UsageError(
                f"{host.name} is a {host.flavour} host and stays one.",
                hint=f"Give new hosts a flavour, or take the lab down first: `kubexm lab down {record.name}`.",
            )
        if wanted.systems.get(host.name, wanted.system or host.system) != host.system:
            raise UsageError(
                f"{host.name} runs {host.system} and stays on it.",
                hint="Give new hosts another system (`--system HOST=SYSTEM`), or take the lab down first: "
                f"`kubexm lab down {record.name}`.",
            )
    run = {host.system for host in record.hosts}
    usual = run.pop() if len(run) == 1 else DEFAULT_SYSTEM
    added = tuple(_host(number, wanted, usual) for number in range(len(record.hosts) + 1, topology.hosts + 1))
    return replace(record, hosts=record.hosts + added)


def _grown_topology(record: LabRecord, wanted: Wanted) -> Topology:
    if wanted.topology is not None:
        return decide(wanted.topology, wanted.hosts)
    count = len(record.hosts) if wanted.hosts is None else decide(None, wanted.hosts).hosts
    return Topology(control_planes=record.control_planes, workers=count - record.control_planes)


def _host(number: int, wanted: Wanted, usual: str) -> HostRecord:
    name = f"n{number}"
    return HostRecord(
        name=name,
        number=number,
        system=system(wanted.systems.get(name, wanted.system or usual)).name,
        flavour=flavour(wanted.flavours.get(name, DEFAULT)).name,
        machine_id=secrets.token_hex(16),
    )


def _check_kinds(wanted: Wanted, hosts: int) -> None:
    for name in (*([wanted.system] if wanted.system else ()), *wanted.systems.values()):
        system(name)
    for name in wanted.flavours.values():
        flavour(name)
    for option, named in (("--system", wanted.systems), ("--flavour", wanted.flavours)):
        for host in named:
            match = re.fullmatch(r"n([1-9]\d{0,2})", host)
            if match is None or int(match[1]) > hosts:
                raise UsageError(
                    f"{option} names {host!r}, which is not a host of this lab.", hint=f"Its hosts are n1 to n{hosts}."
                )


def _counted(topology: Topology) -> str:
    hosts = "1 host" if topology.hosts == 1 else f"{topology.hosts} hosts"
    return f"{hosts} ({topology.control_planes}+{topology.workers})"
