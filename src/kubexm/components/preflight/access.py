"""Checks of what kubexm itself needs on a host: to get in, to be root, a few tools, places it can write to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components.preflight.check import Finding, HostCheck, few
from kubexm.runtime import StepContext
from kubexm.step import Resources, resources

__all__ = ["HostReached", "PathsWritable", "RootAllowed", "ToolsPresent"]

_TOOLS = {"flock": "util-linux", "mount": "util-linux", "setsid": "util-linux", "sha256sum": "coreutils",
          "tar": "tar", "timeout": "coreutils"}  # fmt: skip
_CAPABILITIES = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_CHOWN", "CAP_DAC_OVERRIDE")
_PLACES = """for p in /etc /opt /run /usr/local /var/lib; do
  while ! [ -e "$p" ]; do p=${p%/*}; p=${p:-/}; done
  if ! [ -w "$p" ]; then echo "w $p"; fi
done
for p in /opt /usr/local; do
  while ! [ -e "$p" ]; do p=${p%/*}; p=${p:-/}; done
  case ,$(findmnt -n -o OPTIONS -T "$p" 2>/dev/null), in *,noexec,*) echo "x $p" ;; esac
done
:"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReached(HostCheck):
    """The host answers over SSH, and told its facts."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Facts that nobody gathered mean that nobody got in."""
        if ctx.facts.is_assumed:
            yield Finding("nothing is known of this host", "see that it can be reached, then run preflight again")

    def describe(self) -> str:
        """The state."""
        return "the host can be reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootAllowed(HostCheck):
    """Commands run as root, with what root can usually do."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks at the user id and capabilities the facts were gathered with."""
        facts = ctx.facts
        if facts.uid != 0:
            yield Finding(
                f"commands run as user {facts.uid}, not as root",
                "log in as root, or give the user full sudo rights and set sudoPassword",
            )
            return
        missing = [name for name in _CAPABILITIES if name not in facts.security.capabilities]
        if missing:
            yield Finding(
                f"root lacks {few(missing)} here",
                "this looks like a restricted container: a node needs a machine, a VM or a privileged container",
            )

    def describe(self) -> str:
        """The state."""
        return "commands run as root"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsPresent(HostCheck):
    """The few programs that kubexm itself needs are there."""

    def look(self, ctx: StepContext) -> Iterable[Finding]:
        """Looks for them in the facts."""
        missing = [tool for tool in _TOOLS if not ctx.facts.has_command(tool)]
        if missing:
            packages = dict.fromkeys(_TOOLS[tool] for tool in missing)
            yield Finding(f"{few(missing)} not found", f"install {few(packages)} on the host")

    def describe(self) -> str:
        """The state."""
        return "basic tools present"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsWritable(HostCheck):
    """The directories kubexm writes to can be written to, and programs there can be run."""

    async def find(self, ctx: StepContext) -> list[Finding]:
        """Tries, in one read."""
        result = await ctx.host.command.read(_PLACES, display="look for read-only file systems")
        lines = [line.split(" ", 1) for line in result.text.splitlines()]
        readonly = [path for kind, path in lines if kind == "w"]
        noexec = [path for kind, path in lines if kind == "x"]
        found = []
        if readonly:
            found.append(
                Finding(
                    f"{few(readonly)} cannot be written to",
                    "mount it read-write: look for disk errors in `dmesg` first; image-based systems are not supported",
                )
            )
        if noexec:
            found.append(Finding(f"{few(noexec)} is mounted noexec", "remount it without noexec, also in /etc/fstab"))
        return found

    def reads(self) -> Resources:
        """How these directories are mounted."""
        return resources("mount:*")

    def describe(self) -> str:
        """The state."""
        return "directories writable"
