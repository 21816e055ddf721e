"""What kubexm changed on a host is as it was before; what somebody else changed since is left, and said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.errors import StepError
from kubexm.runner import STATE, Outcome
from kubexm.runner.lines import BlockError, without_block
from kubexm.runner.swap import with_swap
from kubexm.runtime import StepContext
from kubexm.step import EVERYTHING, Check, Resources, Step, resources

__all__ = ["HostRestored"]

_ELSEWHERE = ("package", "tree", "network")
"""Kinds of originals that other steps see to."""
_FSTAB = "/etc/fstab"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRestored(Step):
    """Files, units, kernel parameters, names, swap and users are as before, except what others changed since."""

    keep: tuple[str, ...] = ()
    """Units, and paths with all below, that stay as they are on purpose."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Lists what was not put back yet."""
        left = [item for item in await ctx.host.originals.list() if self._is_due(item.kind, item.name)]
        return Check(False, reason=f"{len(left)} things to put back") if left else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Puts all of it back; where others wrote too, only kubexm's own lines are taken out."""
        await ctx.host.firewall.close_opened()
        restored = await ctx.host.originals.restore(leave=self.keep)
        failed = [f"{item.kind} {item.name}" for item in restored if item.outcome is Outcome.FAILED]
        if failed:
            raise StepError(
                f"could not put back {', '.join(failed[:5])}" + (f" and {len(failed) - 5} more" if failed[5:] else ""),
                host=ctx.host.name,
                hint=f"how it was is kept below {STATE}/originals on the host; the log of this step tells more",
            )
        given_up = [item for item in restored if item.outcome is Outcome.KEPT]
        for item in given_up:
            await self._tell(ctx, item.kind, item.name)
        if given_up:
            await ctx.host.originals.drop((item.kind, item.name) for item in given_up)

    def reads(self) -> Resources:
        """What was kept."""
        return resources("originals:*")

    def writes(self) -> Resources:
        """Anything that kubexm ever changed."""
        return EVERYTHING

    def describe(self) -> str:
        """The state."""
        return "what kubexm changed is as it was"

    async def _tell(self, ctx: StepContext, kind: str, name: str) -> None:
        if kind == "file" and await self._without_our_lines(ctx, name):
            ctx.warn(f"{name} was changed by somebody else since: only kubexm's own lines were taken out of it")
        elif kind == "file" and await ctx.host.directories.matches(name):
            ctx.warn(f"{name} stays: somebody else has put something there")
        else:
            ctx.warn(f"{kind} {name} was changed by somebody else since, and is left as it is")

    async def _without_our_lines(self, ctx: StepContext, name: str) -> bool:
        if await ctx.host.directories.matches(name):
            return False
        found = await ctx.host.files.text(name)
        if found is None or "kubexm" not in found:
            return False

        def cleaned(text: str) -> str:
            try:
                return with_swap(without_block(text, "kubexm")) if name == _FSTAB else without_block(text, "kubexm")
            except BlockError:
                return text

        return await ctx.host.files.edit(PurePosixPath(name), cleaned, keep=False)

    def _is_due(self, kind: str, name: str) -> bool:
        if kind in _ELSEWHERE:
            return False
        below = any(PurePosixPath(name).is_relative_to(path) for path in self.keep if path.startswith("/"))
        above = any(PurePosixPath(path).is_relative_to(name) for path in self.keep if name.startswith("/"))
        return name not in self.keep and not below and not above
