"""Reboots that are due. Must not know why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import EVERYTHING, Resources, resources

__all__ = ["NoRebootPending"]

_FLAG = PurePosixPath("/run/reboot-required")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRebootPending(Step):
    """Nothing asks for a reboot: the flag, which is below /run and so does not outlive one, is not there."""

    flag: PurePosixPath = _FLAG
    within: float = 600.0
    """Seconds for the host to come back."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for the flag."""
        return (
            Check(False, reason=f"{self.flag} asks for one") if await ctx.host.files.exists(self.flag) else Check(True)
        )

    async def run(self, ctx: StepContext) -> None:
        """Reboots the host and waits until it is up again."""
        await ctx.host.power.reboot_and_wait(within=self.within)

    def reads(self) -> Resources:
        """The flag, which packages put there."""
        return resources(f"file:{self.flag}", "package:*")

    def writes(self) -> Resources:
        """Everything stops for a reboot."""
        return EVERYTHING

    def describe(self) -> str:
        """The state."""
        return "no reboot pending"
