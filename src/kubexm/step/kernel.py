"""Kernel parameters, kernel modules and swap: how a host's kernel is to be, now and after a reboot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kubexm.cache import Key, Scope
from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runner import ModuleState
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import recall, remember, restore, restore_parameters, snapshot

__all__ = ["ModulesLoaded", "SwapOff", "SysctlSet"]

_AREAS: Key[list[str]] = Key("step.swap.before", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SysctlSet(Step):
    """These kernel parameters have these values, now and after a reboot."""

    values: Mapping[str, str] = field(hash=False)
    name: str = "kubexm"
    """Of the file below /etc/sysctl.d that holds them; the file holds nothing else."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares live and persisted values; only what differs is read a second time, to show it."""
        if await ctx.host.sysctl.matches(self.values, name=self.name):
            return Check(True)
        live = await ctx.host.sysctl.read(self.values)
        wrong = {key: value for key, value in live.items() if value != _normal(self.values[key])}
        if not wrong:
            return Check(False, reason="they are not set for the next boot")
        lines = [f"{key}: {'not there' if value is None else value}" for key, value in wrong.items()]
        diff = "\n".join(f"-{key} = {now}\n+{key} = {_normal(self.values[key])}" for key, now in wrong.items() if now)
        return Check(False, reason="; ".join(lines), diff=diff)

    async def run(self, ctx: StepContext) -> None:
        """Sets them and writes the file."""
        await ctx.host.sysctl.apply(self.values, name=self.name, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the file, then the live values."""
        await restore(ctx, self._file)
        await restore_parameters(ctx, self.values)

    def reads(self) -> Resources:
        """The parameters and the file."""
        return resources(f"file:{self._file}", *(f"sysctl:{key}" for key in self.values))

    def writes(self) -> Resources:
        """The parameters and the file."""
        return self.reads()

    def describe(self) -> str:
        """The parameters."""
        return "sysctl " + _few([f"{key}={value}" for key, value in self.values.items()])

    @property
    def _file(self) -> PurePosixPath:
        return PurePosixPath(f"/etc/sysctl.d/99-zz-{self.name}.conf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesLoaded(Step):
    """These kernel modules are there: built in, or loaded now and at every boot."""

    modules: tuple[str, ...]
    name: str = "kubexm"
    """Of the file below /etc/modules-load.d that lists them."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for all of them at once."""
        there, states = await asyncio.gather(
            ctx.host.modules.matches(self.modules, name=self.name), ctx.host.modules.states(self.modules)
        )
        if there:
            return Check(True)
        absent = [f"{name} is {state.value}" for name, state in states.items() if not state.present]
        return Check(False, reason="; ".join(absent) or "they are not listed for the next boot")

    async def run(self, ctx: StepContext) -> None:
        """Loads what is missing and lists it for the next boot."""
        states = await ctx.host.modules.states(self.modules)
        missing = [name for name, state in states.items() if state is ModuleState.MISSING]
        if missing and not ctx.facts.has_command("modprobe"):
            raise StepError(
                f"this kernel ({ctx.facts.kernel.release}) has no {_few(missing)}, and there is no modprobe to load it",
                host=ctx.host.name,
                hint="install kmod and the distribution's extra kernel modules, or a kernel that has them",
            )
        await ctx.host.modules.ensure(self.modules, name=self.name, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back the list for the next boot; what was loaded stays loaded, which does no harm."""
        await restore(ctx, self._file)

    def reads(self) -> Resources:
        """The modules, the list, and packages, which bring modules along."""
        return resources(f"file:{self._file}", "package:*", *(f"module:{name}" for name in self.modules))

    def writes(self) -> Resources:
        """The modules, the list, and the parameters that come with modules."""
        return resources(f"file:{self._file}", "sysctl:net.*", *(f"module:{name}" for name in self.modules))

    def describe(self) -> str:
        """The modules."""
        return "kernel modules " + _few(list(self.modules))

    @property
    def _file(self) -> PurePosixPath:
        return PurePosixPath(f"/etc/modules-load.d/{self.name}.conf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapOff(Step):
    """No swap is in use, now or after a reboot."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads what is on and what /etc/fstab switches on."""
        state = await ctx.host.swap.look()
        if state.off:
            return Check(True)
        if state.active:
            return Check(False, reason=f"{_few([area.path for area in state.active])} in use")
        return Check(False, reason=f"/etc/fstab switches on {_few(list(state.configured))}")

    async def run(self, ctx: StepContext) -> None:
        """Switches it off and makes comments of its lines in /etc/fstab."""
        state = await ctx.host.swap.look()
        remember(ctx, _AREAS, [area.path for area in state.active])
        await ctx.host.swap.off(snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back /etc/fstab and switches on what was on."""
        areas = recall(ctx, _AREAS)
        await restore(ctx, PurePosixPath("/etc/fstab"))
        if areas:
            await ctx.host.command.run("\n".join(f"swapon -- {shell(area)} || exit 1" for area in areas))

    def reads(self) -> Resources:
        """Swap and /etc/fstab."""
        return resources("swap:*", "file:/etc/fstab")

    def writes(self) -> Resources:
        """Swap and /etc/fstab."""
        return self.reads()

    def describe(self) -> str:
        """The state."""
        return "swap off"


def _normal(value: str) -> str:
    return " ".join(value.split())


def _few(names: list[str], most: int = 4) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
