"""The runner: everything that can be done to a host, in groups. Stateless; must not know why anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import Connector
from kubexm.runner.archives import Archives
from kubexm.runner.base import STATE
from kubexm.runner.baseline import Baseline
from kubexm.runner.clock import TimeSync
from kubexm.runner.command import Commands
from kubexm.runner.directories import Directories
from kubexm.runner.facts import Facts, gather_facts
from kubexm.runner.files import Files
from kubexm.runner.firewall import Firewall
from kubexm.runner.hosts_file import HostsFile
from kubexm.runner.intents import Intents
from kubexm.runner.lease import Leases
from kubexm.runner.marker import Marker
from kubexm.runner.modules import Modules
from kubexm.runner.mounts import Mounts
from kubexm.runner.naming import Naming
from kubexm.runner.originals import Originals
from kubexm.runner.packages import Packages
from kubexm.runner.placed import Placed
from kubexm.runner.ports import Ports
from kubexm.runner.power import Power
from kubexm.runner.processes import Processes
from kubexm.runner.selinux import Selinux
from kubexm.runner.services import Services
from kubexm.runner.staged import Staged
from kubexm.runner.swap import Swap
from kubexm.runner.sysctl import Sysctl
from kubexm.runner.users import Users

__all__ = ["Runner"]


@dataclass(frozen=True, slots=True)
class Runner:
    """Gives out groups of operations for a host; holds where kubexm keeps its own things there, and nothing else."""

    state: PurePosixPath = STATE

    def snapshots(self, run: str) -> PurePosixPath:
        """Where a run keeps, on each host, how things were before it changed them."""
        return self.state / "snapshots" / run

    async def gather_facts(self, connector: Connector) -> Facts:
        """Everything about the host, in one round trip."""
        return await gather_facts(connector, state=self.state)

    def command(self, connector: Connector, facts: Facts) -> Commands:
        """Plain commands."""
        return Commands(connector, facts, state=self.state)

    def files(self, connector: Connector, facts: Facts) -> Files:
        """Files, links, lines in files."""
        return Files(connector, facts, state=self.state)

    def directories(self, connector: Connector, facts: Facts) -> Directories:
        """Directories."""
        return Directories(connector, facts, state=self.state)

    def archives(self, connector: Connector, facts: Facts) -> Archives:
        """Archives and unpacking them."""
        return Archives(connector, facts, state=self.state)

    def users(self, connector: Connector, facts: Facts) -> Users:
        """Users and groups."""
        return Users(connector, facts, state=self.state)

    def services(self, connector: Connector, facts: Facts) -> Services:
        """systemd units."""
        return Services(connector, facts, state=self.state)

    def packages(self, connector: Connector, facts: Facts) -> Packages:
        """The distribution's packages."""
        return Packages(connector, facts, state=self.state)

    def placed(self, connector: Connector, facts: Facts) -> Placed:
        """Files of assets."""
        return Placed(connector, facts, state=self.state)

    def staged(self, connector: Connector, facts: Facts) -> Staged:
        """Programs staged by version."""
        return Staged(connector, facts, state=self.state)

    def sysctl(self, connector: Connector, facts: Facts) -> Sysctl:
        """Kernel parameters."""
        return Sysctl(connector, facts, state=self.state)

    def modules(self, connector: Connector, facts: Facts) -> Modules:
        """Kernel modules."""
        return Modules(connector, facts, state=self.state)

    def swap(self, connector: Connector, facts: Facts) -> Swap:
        """Swap."""
        return Swap(connector, facts, state=self.state)

    def hosts_file(self, connector: Connector, facts: Facts) -> HostsFile:
        """Entries in /etc/hosts."""
        return HostsFile(connector, facts, state=self.state)

    def naming(self, connector: Connector, facts: Facts) -> Naming:
        """The host's own name."""
        return Naming(connector, facts, state=self.state)

    def selinux(self, connector: Connector, facts: Facts) -> Selinux:
        """SELinux."""
        return Selinux(connector, facts, state=self.state)

    def time(self, connector: Connector, facts: Facts) -> TimeSync:
        """Time synchronisation and time zone."""
        return TimeSync(connector, facts, state=self.state)

    def mounts(self, connector: Connector, facts: Facts) -> Mounts:
        """Mounts."""
        return Mounts(connector, facts, state=self.state)

    def firewall(self, connector: Connector, facts: Facts) -> Firewall:
        """The firewall."""
        return Firewall(connector, facts, state=self.state)

    def ports(self, connector: Connector, facts: Facts) -> Ports:
        """Listening ports, and reaching others'."""
        return Ports(connector, facts, state=self.state)

    def processes(self, connector: Connector, facts: Facts) -> Processes:
        """Processes."""
        return Processes(connector, facts, state=self.state)

    def power(self, connector: Connector, facts: Facts) -> Power:
        """Reboots."""
        return Power(connector, facts, state=self.state)

    def originals(self, connector: Connector, facts: Facts) -> Originals:
        """How things were before kubexm changed them."""
        return Originals(connector, facts, state=self.state)

    def baseline(self, connector: Connector, facts: Facts) -> Baseline:
        """How the host was where the cluster's own programs write."""
        return Baseline(connector, facts, state=self.state)

    def marker(self, connector: Connector, facts: Facts) -> Marker:
        """Which cluster the host belongs to."""
        return Marker(connector, facts, state=self.state)

    def intents(self, connector: Connector, facts: Facts) -> Intents:
        """Which operation of the cluster is under way."""
        return Intents(connector, facts, state=self.state)

    def lease(self, connector: Connector, facts: Facts) -> Leases:
        """Who may change the cluster."""
        return Leases(connector, facts, state=self.state)
