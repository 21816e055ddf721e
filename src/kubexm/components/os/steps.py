"""States of a host's operating system that no generic step names. Must not know which host is to be in which."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kubexm.cache import Key, Scope
from kubexm.components.removal import NetworkCleared
from kubexm.connector.base import shell
from kubexm.runner import Opening
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, resources
from kubexm.step.undo import recall, remember, restore, snapshot, tell

__all__ = ["BaselineKept", "FirewallOpen", "HostNamed", "HostPrepared", "SelinuxPermissive", "Share", "TimezoneSet"]

_LOCALTIME = PurePosixPath("/etc/localtime")
_TIMEZONE = PurePosixPath("/etc/timezone")
_WAS_BARE: Key[bool] = Key("os.bare.before", per_host=True, scope=Scope.STEP)
"""Nothing of a cluster was known on the host before this run."""
_OLD_NAME: Key[str] = Key("os.hostname.before", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Paths and kernel parameters that some hosts have in common: keeps plans of many hosts small."""

    hosts: tuple[str, ...]
    directories: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    mount_points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineKept(Step):
    """It is kept how the host was where the cluster's own programs write, so that delete can tell what is theirs."""

    shares: tuple[Share, ...]
    network: NetworkCleared = field(default_factory=NetworkCleared)
    """How the cluster's network goes again."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks whether all of it was kept, in one read."""
        share = self._share(ctx)
        missing = await ctx.host.baseline.missing(share.directories, share.parameters, share.mount_points)
        if not missing:
            return Check(True)
        return Check(False, reason=f"it is not known how {missing[0]} was" + (" and more" if missing[1:] else ""))

    async def run(self, ctx: StepContext) -> None:
        """Keeps it."""
        share = self._share(ctx)
        remember(ctx, _WAS_BARE, not await ctx.host.baseline.directories())
        await ctx.host.baseline.keep(share.directories, share.parameters, share.mount_points)

    async def rollback(self, ctx: StepContext) -> None:
        """Clears what the cluster's programs wrote, if this run brought the first of them; all are stopped by now."""
        if not recall(ctx, _WAS_BARE):
            return
        share, originals = self._share(ctx), ctx.host.originals
        await self.network.run(ctx)
        await ctx.host.baseline.clear()
        tell(ctx, await originals.restore_parameters(share.parameters))
        tell(ctx, [await originals.restore_path(path) for path in share.mount_points])
        await ctx.host.services.daemon_reload()  # and systemd forgets units whose files are gone

    def reads(self) -> Resources:
        """What was kept."""
        return resources("baseline:*")

    def writes(self) -> Resources:
        """What was kept."""
        return resources("baseline:*")

    def describe(self) -> str:
        """The state."""
        return "how the host was is kept"

    def _share(self, ctx: StepContext) -> Share:
        return next(share for share in self.shares if ctx.host.name in share.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNamed(Step):
    """The host calls itself by the name it has in the file, now and after a reboot."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks it."""
        reason = await ctx.host.naming.why_not(ctx.host.name)
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Names it."""
        remember(ctx, _OLD_NAME, ctx.facts.hostname)
        await ctx.host.naming.call(ctx.host.name, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the name it had."""
        old = recall(ctx, _OLD_NAME)
        await restore(ctx, PurePosixPath("/etc/hostname"))
        await ctx.host.command.run(shell("hostname", "--", old))

    def reads(self) -> Resources:
        """The name."""
        return resources("file:/etc/hostname", "hostname:kernel")

    def writes(self) -> Resources:
        """The name."""
        return self.reads()

    def describe(self) -> str:
        """The state."""
        return "hostname as in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimezoneSet(Step):
    """The host is in this time zone."""

    zone: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares what /etc/localtime stands for."""
        zone = shell(f"/usr/share/zoneinfo/{self.zone}")
        test = f'[ -e {zone} ] && [ "$(readlink -f {_LOCALTIME})" = "$(readlink -f {zone})" ]'
        same = await ctx.host.command.succeeds(test)
        return Check(True) if same else Check(False, reason="it is in another")

    async def run(self, ctx: StepContext) -> None:
        """Links it."""
        await ctx.host.time.set_timezone(self.zone, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the one it was in."""
        await restore(ctx, _LOCALTIME, _TIMEZONE)

    def reads(self) -> Resources:
        """The link, and packages, which bring the zones."""
        return resources(f"file:{_LOCALTIME}", "package:*")

    def writes(self) -> Resources:
        """The link and its name."""
        return resources(f"file:{_LOCALTIME}", f"file:{_TIMEZONE}")

    def describe(self) -> str:
        """The zone."""
        return f"time zone {self.zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallOpen(Step):
    """An active firewall lets the cluster's traffic in; one that is not there is not made."""

    shares: tuple[tuple[tuple[str, ...], tuple[Opening, ...]], ...]
    """Hosts, and what is to be open on them."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks which firewall there is, and if there is one, what is not open."""
        state = await ctx.host.firewall.look(self._openings(ctx))
        if not state.missing:
            return Check(True)
        named = ", ".join(str(opening) for opening in state.missing[:5])
        more = f" and {len(state.missing) - 5} more" if len(state.missing) > 5 else ""
        return Check(False, reason=f"{state.kind} does not let in {named}{more}")

    async def run(self, ctx: StepContext) -> None:
        """Opens what is missing."""
        await ctx.host.firewall.open(self._openings(ctx), snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Closes what this run opened, and nothing else."""
        tell(ctx, await ctx.host.firewall.undo(snapshot(ctx)))

    def reads(self) -> Resources:
        """The firewall."""
        return resources("firewall:*")

    def writes(self) -> Resources:
        """The firewall, and the unit that puts plain rules in at each boot."""
        return resources("firewall:*", "unit:kubexm-firewall.service")

    def describe(self) -> str:
        """The state."""
        return "firewall open for the cluster"

    def _openings(self, ctx: StepContext) -> tuple[Opening, ...]:
        return next((found for hosts, found in self.shares if ctx.host.name in hosts), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SelinuxPermissive(Step):
    """SELinux reports, and enforces nothing, now and after a reboot."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks it."""
        reason = await ctx.host.selinux.why_not_permissive()
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Tells it."""
        await ctx.host.selinux.make_permissive(snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Lets it enforce again."""
        await restore(ctx, PurePosixPath("/etc/selinux/config"))
        if ctx.facts.security.selinux == "enforcing":
            await ctx.host.command.run(shell("setenforce", "1"))

    def reads(self) -> Resources:
        """SELinux."""
        return resources("file:/etc/selinux/config", "selinux:mode")

    def writes(self) -> Resources:
        """SELinux."""
        return self.reads()

    def describe(self) -> str:
        """The state."""
        return "SELinux permissive"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPrepared(Step):
    """Everything that was to be done to the operating system is done: what others wait for. Does nothing itself."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Holds once what stands before it does."""
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Never needed."""

    def reads(self) -> Resources:
        """Nothing."""
        return NOTHING

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def describe(self) -> str:
        """The state."""
        return "host prepared"
