"""Steps that change nothing: the reading half of another step, and a point that others wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubexm.cache import Key
from kubexm.errors import StepError
from kubexm.runtime import LocalFile, StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import NOTHING, Resources

__all__ = ["OnlyRead", "Reached"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Step):
    """Holds as soon as what it waits for is done: turns what hosts reach one by one into a point for others."""

    what: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Nothing is left to look at."""
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
        """What was reached."""
        return f"{self.what} serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyRead(Step):
    """Another step's state holds already, and its values are known; it is never brought about."""

    step: Step
    why: str
    """Why nothing may be changed, in a few words."""
    needed_by: str
    """The node that needs its values."""

    async def precheck(self, ctx: StepContext) -> Check:
        """What the other step says; where it would have to be run, this is an error."""
        check = await self.step.precheck(ctx)
        if check.satisfied:
            return check
        because = f" ({check.reason})" if check.reason else ""
        raise StepError(
            f"{self.step.describe()}: this is not so yet{because}, {self.needed_by} needs it, and it is {self.why}",
            host=ctx.host.name,
            hint=f"run it as well, or leave {self.needed_by} out too",
        )

    async def run(self, ctx: StepContext) -> None:
        """Never needed."""

    def reads(self) -> Resources:
        """What the other step looks at."""
        return self.step.reads()

    def writes(self) -> Resources:
        """Nothing."""
        return NOTHING

    def produces(self) -> tuple[Key[Any], ...]:
        """What the other step hands on."""
        return self.step.produces()

    def consumes(self) -> tuple[Key[Any], ...]:
        """What the other step needs."""
        return self.step.consumes()

    def gathers(self) -> tuple[Key[Any], ...]:
        """What the other step needs of every host."""
        return self.step.gathers()

    def may_use(self) -> tuple[Key[Any], ...]:
        """What the other step uses if it is there."""
        return self.step.may_use()

    def secrets(self, host: str) -> tuple[str, ...]:
        """What the other step uses."""
        return self.step.secrets(host)

    def sources(self) -> tuple[LocalFile, ...]:
        """What the other step reads."""
        return self.step.sources()

    def describe(self) -> str:
        """The state, and that it is not brought about."""
        return f"{self.step.describe()}, as it is"
