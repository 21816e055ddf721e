"""systemd units that are up, from the inputs they should be, or are down. Must not know what they run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.cache import Key, Scope
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import recall, remember, restore

__all__ = ["ServiceRunning", "ServiceStopped"]

_BEFORE: Key[dict[str, bool]] = Key("step.service.before", per_host=True, scope=Scope.STEP)
_UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system")
_KINDS = (".service", ".socket", ".timer", ".target", ".mount", ".path", ".swap", ".slice", ".scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRunning(Step):
    """The unit is active, started from these inputs, and starts at boot.

    Its unit file and drop-ins are inputs too. There are no "changed" flags: whatever happened since the unit was
    started, if an input differs from what it was started with, it is restarted.
    """

    settle: ClassVar[float] = 15.0

    unit: str
    inputs: tuple[PurePosixPath, ...] = ()
    """Files and directories the unit reads when it starts."""
    reload: bool = False
    """Changed inputs are taken over by `systemctl reload` where the unit is running."""
    within: float = 300.0
    """Seconds for it to start."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks systemd and compares with the stamp of the last start, in one read."""
        reason = await ctx.host.services.why_not(self.unit, self.inputs)
        if not reason:
            return Check(True)
        if reason.startswith("failed") or "auto-restart" in reason:
            failure = await ctx.host.services.failure(self.unit)
            reason = failure.message if failure is not None else reason
        return Check(False, reason=reason)

    async def run(self, ctx: StepContext) -> None:
        """(Re)starts it; the error of a unit that fails has its own last log lines."""
        status = await ctx.host.services.status(self.unit)
        remember(ctx, _BEFORE, {"active": status.is_active, "enabled": status.is_enabled})
        if self.reload and status.is_active:
            await ctx.host.services.reload(self.unit, self.inputs, within=self.within)
        else:
            await ctx.host.services.restart(self.unit, self.inputs, within=self.within)

    async def rollback(self, ctx: StepContext) -> None:
        """Stops what this run started; what ran before runs again, from the inputs it had then."""
        before = recall(ctx, _BEFORE)
        services = ctx.host.services
        if not before["active"]:
            await services.stop(self.unit)
        if not before["enabled"]:
            await services.disable(self.unit)
        if before["active"]:
            unit_files = [PurePosixPath(base) / full_name(self.unit) for base in _UNIT_DIRECTORIES]
            await restore(ctx, *unit_files, *self.inputs)
            await services.restart(self.unit, self.inputs, within=self.within)

    def reads(self) -> Resources:
        """The unit, its unit file and drop-ins, its inputs, and packages, which bring units along."""
        return resources(
            f"unit:{full_name(self.unit)}",
            "package:*",
            *(f"file:{base}/{full_name(self.unit)}*" for base in _UNIT_DIRECTORIES),
            *(name for path in self.inputs for name in (f"file:{path}", f"file:{path}/*")),
        )

    def writes(self) -> Resources:
        """The unit."""
        return resources(f"unit:{full_name(self.unit)}")

    def describe(self) -> str:
        """The unit."""
        return f"{full_name(self.unit)} running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStopped(Step):
    """The unit is not active and does not start at boot; one that does not exist is fine."""

    settle: ClassVar[float] = 15.0

    unit: str
    mask: bool = False
    """Nobody else can start it either."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks systemd, in one read."""
        status = await ctx.host.services.status(self.unit)
        if self.mask and status.enabled != "masked":
            return Check(False, reason="it is not masked")
        if status.active not in ("inactive", "failed", ""):
            return Check(False, reason=f"it is {status.active} ({status.sub})")
        return Check(False, reason="it starts at boot") if status.enabled in ("enabled", "linked") else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Stops and disables (or masks) it."""
        services = ctx.host.services
        status = await services.status(self.unit)
        before = {"active": status.is_active, "enabled": status.is_enabled, "masked": status.enabled == "masked"}
        remember(ctx, _BEFORE, before)
        await services.stop(self.unit)
        await services.disable(self.unit)
        if self.mask:
            await services.mask(self.unit)

    async def rollback(self, ctx: StepContext) -> None:
        """Starts and enables it again, if it was so before this run."""
        before = recall(ctx, _BEFORE)
        services = ctx.host.services
        if self.mask and not before["masked"]:
            await services.unmask(self.unit)
        if before["enabled"]:
            await services.enable(self.unit)
        if before["active"]:
            await services.start(self.unit)

    def reads(self) -> Resources:
        """The unit, and packages, which bring units along."""
        return resources(f"unit:{full_name(self.unit)}", "package:*")

    def writes(self) -> Resources:
        """The unit."""
        return resources(f"unit:{full_name(self.unit)}")

    def describe(self) -> str:
        """The unit."""
        return f"{full_name(self.unit)} stopped"


def full_name(unit: str) -> str:
    """The unit's name with its kind: a name without one is a service."""
    return unit if unit.endswith(_KINDS) else f"{unit}.service"
