"""Steps: states that hosts are to be in. Knows hosts through the runner; nothing of graphs or engines."""

from kubexm.step.archives import ArchiveExtracted
from kubexm.step.base import Check, Reversible, Step, Values, step_kinds
from kubexm.step.clock import TimeKept
from kubexm.step.commands import CommandRun
from kubexm.step.files import Content, FileAbsent, FilePresent, FileUploaded
from kubexm.step.kernel import ModulesLoaded, SwapOff, SysctlSet
from kubexm.step.lines import BlockInFile, HostsEntries, LineInFile
from kubexm.step.packages import PackagesInstalled
from kubexm.step.paths import DirectoryPresent, LinkPresent
from kubexm.step.reading import OnlyRead, Reached
from kubexm.step.reboot import NoRebootPending
from kubexm.step.resources import EVERYTHING, NOTHING, OUTCOME, Resources, clash, clash_in_cluster, resources
from kubexm.step.services import ServiceRunning, ServiceStopped
from kubexm.step.users import UserPresent

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "OUTCOME",
    "ArchiveExtracted",
    "BlockInFile",
    "Check",
    "CommandRun",
    "Content",
    "DirectoryPresent",
    "FileAbsent",
    "FilePresent",
    "FileUploaded",
    "HostsEntries",
    "LineInFile",
    "LinkPresent",
    "ModulesLoaded",
    "NoRebootPending",
    "OnlyRead",
    "PackagesInstalled",
    "Reached",
    "Resources",
    "Reversible",
    "ServiceRunning",
    "ServiceStopped",
    "Step",
    "SwapOff",
    "SysctlSet",
    "TimeKept",
    "UserPresent",
    "Values",
    "clash",
    "clash_in_cluster",
    "resources",
    "step_kinds",
]
