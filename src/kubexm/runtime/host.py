"""A host that was reached: who it is, the way to it, what is known of it, and what can be done to it."""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.connector import Connector, Host
from kubexm.runner import (
    Archives,
    Baseline,
    Commands,
    Directories,
    Facts,
    Files,
    Firewall,
    HostsFile,
    Intents,
    Leases,
    Marker,
    Modules,
    Mounts,
    Naming,
    Originals,
    Packages,
    Placed,
    Ports,
    Power,
    Processes,
    Runner,
    Selinux,
    Services,
    Staged,
    Swap,
    Sysctl,
    TimeSync,
    Users,
)

__all__ = ["HostRuntime"]


@dataclass(frozen=True, slots=True)
class HostRuntime:
    """The runner's operations, bound to one host. Holds no state of its own."""

    host: Host
    connector: Connector
    facts: Facts
    runner: Runner

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    def through(self, connector: Connector) -> HostRuntime:
        """The same host, reached through this connector."""
        return HostRuntime(self.host, connector, self.facts, self.runner)

    @property
    def command(self) -> Commands:
        """Plain commands."""
        return self.runner.command(self.connector, self.facts)

    @property
    def files(self) -> Files:
        """Files, links, lines in files."""
        return self.runner.files(self.connector, self.facts)

    @property
    def directories(self) -> Directories:
        """Directories."""
        return self.runner.directories(self.connector, self.facts)

    @property
    def archives(self) -> Archives:
        """Archives."""
        return self.runner.archives(self.connector, self.facts)

    @property
    def users(self) -> Users:
        """Users and groups."""
        return self.runner.users(self.connector, self.facts)

    @property
    def services(self) -> Services:
        """systemd units."""
        return self.runner.services(self.connector, self.facts)

    @property
    def packages(self) -> Packages:
        """Packages of the distribution."""
        return self.runner.packages(self.connector, self.facts)

    @property
    def placed(self) -> Placed:
        """Files of assets."""
        return self.runner.placed(self.connector, self.facts)

    @property
    def staged(self) -> Staged:
        """Programs staged by version."""
        return self.runner.staged(self.connector, self.facts)

    @property
    def sysctl(self) -> Sysctl:
        """Kernel settings."""
        return self.runner.sysctl(self.connector, self.facts)

    @property
    def modules(self) -> Modules:
        """Kernel modules."""
        return self.runner.modules(self.connector, self.facts)

    @property
    def swap(self) -> Swap:
        """Swap."""
        return self.runner.swap(self.connector, self.facts)

    @property
    def hosts_file(self) -> HostsFile:
        """/etc/hosts."""
        return self.runner.hosts_file(self.connector, self.facts)

    @property
    def naming(self) -> Naming:
        """The host's own name."""
        return self.runner.naming(self.connector, self.facts)

    @property
    def selinux(self) -> Selinux:
        """SELinux."""
        return self.runner.selinux(self.connector, self.facts)

    @property
    def time(self) -> TimeSync:
        """The clock and who keeps it right."""
        return self.runner.time(self.connector, self.facts)

    @property
    def mounts(self) -> Mounts:
        """Mounts."""
        return self.runner.mounts(self.connector, self.facts)

    @property
    def firewall(self) -> Firewall:
        """The firewall."""
        return self.runner.firewall(self.connector, self.facts)

    @property
    def ports(self) -> Ports:
        """Ports."""
        return self.runner.ports(self.connector, self.facts)

    @property
    def processes(self) -> Processes:
        """Processes."""
        return self.runner.processes(self.connector, self.facts)

    @property
    def power(self) -> Power:
        """Reboots."""
        return self.runner.power(self.connector, self.facts)

    @property
    def originals(self) -> Originals:
        """How things were before kubexm changed them."""
        return self.runner.originals(self.connector, self.facts)

    @property
    def baseline(self) -> Baseline:
        """How the host was where the cluster's own programs write."""
        return self.runner.baseline(self.connector, self.facts)

    @property
    def intents(self) -> Intents:
        """Which operation of the cluster is under way."""
        return self.runner.intents(self.connector, self.facts)

    @property
    def marker(self) -> Marker:
        """Which cluster the host belongs to."""
        return self.runner.marker(self.connector, self.facts)

    @property
    def lease(self) -> Leases:
        """Who may change the cluster."""
        return self.runner.lease(self.connector, self.facts)
