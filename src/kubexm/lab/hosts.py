"""One host of a lab, as everybody else sees it. Must not know how the lab was brought about."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from kubexm.lab.cgroups import Subtree
from kubexm.lab.disk import Disk
from kubexm.lab.flavours import FLAVOURS, Flavour
from kubexm.lab.machine import Machine
from kubexm.lab.network import LabNetwork
from kubexm.lab.state import HostRecord, LabRecord
from kubexm.lab.systems import SYSTEMS, System

__all__ = ["HostState", "HostStatus", "LabHost", "answers_ssh", "hosts_of"]

HostState = Literal["running", "booting", "cut", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """A host: what it is called, where it is, what it is for."""

    name: str
    number: int
    address: IPv4Address
    roles: tuple[str, ...]
    system: System
    flavour: Flavour
    machine_id: str
    is_cut: bool
    disk: Disk
    machine: Machine
    network: LabNetwork

    @property
    def login(self) -> str:
        """The user to connect as."""
        return self.flavour.login

    def status(self) -> HostStatus:
        """How the host is now."""
        return HostStatus(
            name=self.name,
            address=str(self.address),
            roles=self.roles,
            system=self.system.name,
            flavour=self.flavour.name,
            user=self.login,
            state=self._state(),
            pid=self.machine.leader(),
            memory=self.machine.group.memory() if self.machine.is_on else None,
            disk=self.disk.usage(),
            disk_full=self.disk.is_full,
        )

    def _state(self) -> HostState:
        if not self.machine.is_on:
            return "off"
        if self.is_cut and not self.network.is_connected(self.name):
            return "cut"
        return "running" if answers_ssh(self.address) else "booting"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """How a host is: `memory` and `disk` (used, in all) are bytes."""

    name: str
    address: str
    roles: tuple[str, ...]
    system: str
    flavour: str
    user: str
    state: HostState
    pid: int | None
    memory: int | None
    disk: tuple[int, int] | None
    disk_full: bool


def hosts_of(record: LabRecord, *, folder: Path, group: Subtree, network: LabNetwork) -> tuple[LabHost, ...]:
    """Every host of a lab, in order; `folder` is the lab's."""
    return tuple(_host(record, host, folder / "hosts" / host.name, group, network) for host in record.hosts)


def answers_ssh(address: IPv4Address, *, within: float = 1.0) -> bool:
    """Whether an SSH server greets us at the address."""
    try:
        with socket.create_connection((str(address), 22), timeout=within) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _host(record: LabRecord, host: HostRecord, folder: Path, group: Subtree, network: LabNetwork) -> LabHost:
    disk = Disk(folder=folder)
    machine = Machine(
        name=host.name,
        unique_name=network.machine_name(host.name),
        folder=folder,
        root=disk.root,
        binds=disk.binds,
        bridge=network.bridge,
        link=network.link(host.name),
        group=group.child(host.name),
        launcher_group=group.child(f"{host.name}.boot"),
    )
    plane = host.number <= record.control_planes
    worker = not plane or len(record.hosts) == record.control_planes
    return LabHost(
        name=host.name,
        number=host.number,
        address=network.address(host.number).ip,
        roles=(*(("etcd", "control plane") if plane else ()), *(("worker",) if worker else ())),
        system=SYSTEMS[host.system],
        flavour=FLAVOURS[host.flavour],
        machine_id=host.machine_id,
        is_cut=host.cut,
        disk=disk,
        machine=machine,
        network=network,
    )
