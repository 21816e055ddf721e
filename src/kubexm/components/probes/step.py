"""A time in which a cluster is only measured."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step

__all__ = ["Watched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Step):
    """The cluster was watched for a while; what was measured belongs to this phase."""

    phase: str
    seconds: float
    busy: bool = False
    """Every core is kept busy meanwhile."""

    async def precheck(self, ctx: StepContext) -> Check:
        """It is done each time."""
        return Check.unreadable()

    async def run(self, ctx: StepContext) -> None:
        """Waits: agents on the hosts measure."""
        await asyncio.sleep(self.seconds)

    def reads(self) -> Resources:
        """Nothing."""
        return NOTHING

    def writes(self) -> Resources:
        """Nothing: it only waits."""
        return NOTHING

    def describe(self) -> str:
        """For people."""
        return f"measure for {self.seconds:g} s" + (" with every core busy" if self.busy else "")
