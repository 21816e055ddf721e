"""What can be done to a host: stateless operations, each as a read and a change, and the host's facts."""

from kubexm.runner.archives import Archives
from kubexm.runner.base import STATE
from kubexm.runner.baseline import Baseline
from kubexm.runner.clock import TimeState, TimeSync
from kubexm.runner.command import Commands
from kubexm.runner.directories import Directories
from kubexm.runner.facts import LAYOUT, ClusterMarker, Facts, Intent, gather_facts
from kubexm.runner.files import FileKind, Files, FileStat, NewFile
from kubexm.runner.firewall import Firewall, FirewallState, Opening
from kubexm.runner.hosts_file import HostsFile
from kubexm.runner.intents import Intents
from kubexm.runner.lease import Lease, Leases
from kubexm.runner.marker import Marker
from kubexm.runner.modules import Modules, ModuleState
from kubexm.runner.mounts import Mount, Mounts
from kubexm.runner.naming import Naming
from kubexm.runner.originals import Original, Originals, Outcome, Restored
from kubexm.runner.packages import Packages
from kubexm.runner.placed import Placed
from kubexm.runner.ports import Ports, Reach
from kubexm.runner.power import Power
from kubexm.runner.processes import Process, Processes
from kubexm.runner.runner import Runner
from kubexm.runner.selinux import Selinux
from kubexm.runner.services import Services, UnitStatus
from kubexm.runner.staged import Staged
from kubexm.runner.swap import Swap, SwapState
from kubexm.runner.sysctl import Sysctl
from kubexm.runner.template import render
from kubexm.runner.users import Group, User, Users

__all__ = [
    "LAYOUT",
    "STATE",
    "Archives",
    "Baseline",
    "ClusterMarker",
    "Commands",
    "Directories",
    "Facts",
    "FileKind",
    "FileStat",
    "Files",
    "Firewall",
    "FirewallState",
    "Group",
    "HostsFile",
    "Intent",
    "Intents",
    "Lease",
    "Leases",
    "Marker",
    "ModuleState",
    "Modules",
    "Mount",
    "Mounts",
    "Naming",
    "NewFile",
    "Opening",
    "Original",
    "Originals",
    "Outcome",
    "Packages",
    "Placed",
    "Ports",
    "Power",
    "Process",
    "Processes",
    "Reach",
    "Restored",
    "Runner",
    "Selinux",
    "Services",
    "Staged",
    "Swap",
    "SwapState",
    "Sysctl",
    "TimeState",
    "TimeSync",
    "UnitStatus",
    "User",
    "Users",
    "gather_facts",
    "render",
]
