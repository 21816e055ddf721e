"""The files of an asset are on a host. Must not know what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.assets.catalog import Install
from kubexm.errors import AssetError
from kubexm.runtime import ShelfFile, StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, restore_below, snapshot

__all__ = ["AssetPresent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPresent(Step):
    """A file of the bundle is where it belongs, or the members of an archive are."""

    name: str
    version: str
    install: Install
    sums: tuple[tuple[str, str], ...] = ()
    """sha256 by architecture, as planned; where it is not known, that of the bundle at hand counts."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares what was put there with its stamp, in one read."""
        sha256 = self._sha256(ctx)
        if not sha256:
            return Check(False, reason=f"which {self.name} it should be is not known without a bundle")
        reason = await ctx.host.placed.why_not(self.name, sha256)
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Sends it and puts it in its place, whole or not at all."""
        file = self._file(ctx)
        source, packed = ctx.assets.local(file.path, ctx.facts.arch, sha256=self._sha256(ctx)), ""
        if ctx.facts.has_command("zstd"):
            smaller = await ctx.assets.packed(file.path, ctx.facts.arch, sha256=file.sha256)
            source, packed = smaller or (source, packed)
        if self.install.unpack:
            await ctx.host.placed.unpack(
                self.name,
                source,
                self.install.to,
                packed=packed,
                sha256=file.sha256,
                strip_components=self.install.strip,
                members=self.install.members,
                snapshot=snapshot(ctx),
            )
        else:
            await ctx.host.placed.put(
                self.name,
                source,
                self.install.to,
                packed=packed,
                sha256=file.sha256,
                mode=self.install.mode,
                snapshot=snapshot(ctx),
            )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        if self.install.unpack and not self.install.members:
            await restore_below(ctx, self.install.to)
        else:
            await restore(ctx, *self.paths)

    @property
    def paths(self) -> tuple[PurePosixPath, ...]:
        """The files it puts on the host; the directory, if that is filled with all that is in an archive."""
        return tuple(self.install.to / member for member in self.install.members) or (self.install.to,)

    def reads(self) -> Resources:
        """Its files."""
        return self.writes()

    def writes(self) -> Resources:
        """Its files."""
        below = [f"file:{self.install.to}/*"] if self.install.unpack and not self.install.members else []
        return resources(f"asset:{self.name}", *(f"file:{path}" for path in self.paths), *below)

    def sums_needed(self) -> tuple[str, ...]:
        """Of each architecture."""
        return tuple(sha256 for _, sha256 in self.sums)

    def describe(self) -> str:
        """What and where."""
        return f"{self.name} {self.version} in {self.install.to}"

    def _file(self, ctx: StepContext) -> ShelfFile:
        file = ctx.assets.file(self.name, ctx.facts.arch)
        if not file.sha256:
            ctx.assets.bundle(ctx.facts.arch)  # says what to do
            raise AssetError(f"the bundle does not tell the sha256 of {self.name}")
        return file

    def _sha256(self, ctx: StepContext) -> str:
        planned = dict(self.sums).get(ctx.facts.arch, "")
        return planned or ctx.assets.file(self.name, ctx.facts.arch).sha256
