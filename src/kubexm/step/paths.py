"""Directories and links. Must not know what is in them or behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import restore, snapshot, was_absent

__all__ = ["DirectoryPresent", "LinkPresent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPresent(Step):
    """A directory is there with this mode and owner; those above it are made. What is in it is left alone."""

    path: PurePosixPath
    mode: int = 0o755
    owner: str = "root"
    group: str = "root"
    own: bool = False
    """What is put in later belongs to it: a rollback that made it takes it away with all in it."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares, in one read."""
        same = await ctx.host.directories.matches(self.path, mode=self.mode, owner=self.owner, group=self.group)
        return Check(True) if same else Check(False, reason="it is not there, or its mode or owner differ")

    async def run(self, ctx: StepContext) -> None:
        """Makes it so."""
        await ctx.host.directories.ensure(
            self.path, mode=self.mode, owner=self.owner, group=self.group, snapshot=snapshot(ctx)
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back how it was; a directory in which others put something stays."""
        if self.own and await was_absent(ctx, self.path):
            await ctx.host.directories.remove(self.path)
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The directory itself."""
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        """The directory itself."""
        return resources(f"file:{self.path}")

    def describe(self) -> str:
        """The path."""
        return f"directory {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPresent(Step):
    """A symbolic link is there, with exactly this target."""

    path: PurePosixPath
    target: PurePosixPath

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares, in one read."""
        same = await ctx.host.files.links_to(self.path, self.target)
        return Check(True) if same else Check(False, reason=f"it is no link to {self.target}")

    async def run(self, ctx: StepContext) -> None:
        """Makes or replaces it."""
        await ctx.host.files.link(self.path, self.target, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The link."""
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        """The link."""
        return resources(f"file:{self.path}")

    def describe(self) -> str:
        """Both ends."""
        return f"link {self.path} → {self.target}"
