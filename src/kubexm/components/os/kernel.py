"""Kernel parameters as they must be, or at least must be. Must not know why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, restore_parameters, snapshot

__all__ = ["KernelTuned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTuned(Step):
    """Kernel parameters have these values, or at least these, now and after a reboot."""

    values: Mapping[str, str] = field(hash=False)
    least: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Those that are higher already are left alone, and not written down."""
    name: str = "kubexm"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares live values and those for the next boot, in one round trip; another only if some left the file."""
        live, written = await self._look(ctx)
        wanted = self._wanted(live, written)
        wrong = [
            (key, live[key], _plain(value))
            for key, value in wanted.items()
            if (key in self.values and live[key] != _plain(value)) or (key in self.least and _below(live[key], value))
        ]
        reasons = [f"{key} is {'not there' if now is None else now}" for key, now, _ in wrong]
        dropped = [key for key in written if key not in wanted]
        left = await ctx.host.sysctl.left_over(dropped) if dropped else {}
        reasons += [f"{key} is wanted no more, and goes back to {was}" for key, (_, was) in left.items()]
        if reasons:
            lines = [(key, now, new) for key, now, new in wrong if now]
            lines += [(key, now, was) for key, (now, was) in left.items()]
            diff = "\n".join(f"-{key} = {now}\n+{key} = {new}" for key, now, new in lines)
            return Check(False, reason="; ".join(reasons), diff=diff)
        if written != {key: _plain(value) for key, value in wanted.items()}:
            return Check(False, reason="they are not set so for the next boot")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Sets them and writes the file; what is right already is not touched, as it may not be writable.

        Those that left the file get back what they had before kubexm, unless somebody else changed them since.
        """
        live, written = await self._look(ctx)
        wanted = self._wanted(live, written)
        for key in self.least:
            if key in wanted and not _below(live[key], wanted[key]):
                wanted[key] = str(live[key])
        dropped = tuple(key for key in written if key not in wanted)
        await ctx.host.sysctl.apply(wanted, dropped=dropped, name=self.name, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the live values, those that had left the file too, and the file."""
        written = (await self._look(ctx))[1]
        await restore(ctx, self._file)
        before = (await self._look(ctx))[1]
        await restore_parameters(ctx, {**self.values, **self.least, **written, **before})

    def reads(self) -> Resources:
        """The parameters and the file."""
        return resources(f"file:{self._file}", *(f"sysctl:{key}" for key in {**self.values, **self.least}))

    def writes(self) -> Resources:
        """The parameters and the file."""
        return self.reads()

    def describe(self) -> str:
        """How many."""
        return f"{len(self.values) + len(self.least) or 'no'} kernel parameters"

    async def _look(self, ctx: StepContext) -> tuple[dict[str, str | None], dict[str, str]]:
        live, text = await asyncio.gather(
            ctx.host.sysctl.read({**self.values, **self.least}), ctx.host.files.text(self._file)
        )
        lines = (line.partition("=") for line in (text or "").split("\n") if not line.startswith("#"))
        return live, {key.strip(): _plain(value) for key, equals, value in lines if equals}

    def _wanted(self, live: Mapping[str, str | None], written: Mapping[str, str]) -> dict[str, str]:
        """All values, and of those that have a least one, which are too low or were raised before."""
        wanted = dict(self.values)
        for key, least in self.least.items():
            if key not in self.values and (key in written or _below(live[key], str(least))):
                wanted[key] = str(max(least, _number(written.get(key, "0"))))
        return wanted

    @property
    def _file(self) -> PurePosixPath:
        return PurePosixPath(f"/etc/sysctl.d/99-zz-{self.name}.conf")


def _plain(value: str) -> str:
    return " ".join(value.split())


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _below(live: str | None, least: str) -> bool:
    """True if the live value is too low; one this kernel does not have never is."""
    return live is not None and _number(live) < _number(least)
