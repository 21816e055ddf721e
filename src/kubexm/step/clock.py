"""The time of a host: who keeps it. Must not know how much skew matters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import snapshot

__all__ = ["TimeKept"]

_SETTINGS = (
    PurePosixPath("/etc/systemd/timesyncd.conf.d/kubexm.conf"),
    PurePosixPath("/etc/chrony/chrony.conf"),
    PurePosixPath("/etc/chrony.conf"),
)
_UNITS = ("chrony", "chronyd", "systemd-timesyncd", "ntp", "ntpd", "ntpsec", "openntpd")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeKept(Step):
    """A time service that is installed on the host runs, also after a reboot, with these servers or its own."""

    settle: ClassVar[float] = 15.0

    servers: tuple[str, ...] = ()

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks which service runs and what it is told to use."""
        if await ctx.host.time.uses(self.servers):
            return Check(True)
        return Check(False, reason="no time service runs" if not self.servers else "no time service uses these servers")

    async def run(self, ctx: StepContext) -> None:
        """Tells the service and starts it."""
        await ctx.host.time.use(self.servers, snapshot=snapshot(ctx))

    def reads(self) -> Resources:
        """The services and their settings, and packages, which bring them."""
        return self.writes() | resources("package:*")

    def writes(self) -> Resources:
        """The services and their settings."""
        return resources(*(f"unit:{unit}.service" for unit in _UNITS), *(f"file:{path}" for path in _SETTINGS))

    def describe(self) -> str:
        """The servers, if any."""
        return "time kept by a service" + (f" with {', '.join(self.servers)}" if self.servers else "")
