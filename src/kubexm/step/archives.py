"""Archives whose files are on the host. Must not know what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import restore_below, snapshot

__all__ = ["ArchiveExtracted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExtracted(Step):
    """The files of an archive (tar, .gz, .xz or .zst) that is on the host are in a directory, as they are in it."""

    archive: PurePosixPath
    sha256: str
    """Of the archive; it need not be there any more for this to be told later."""
    into: PurePosixPath
    strip_components: int = 0

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares every file with the list kept when it was unpacked."""
        done = await ctx.host.archives.extracted(self.sha256, self.into, strip_components=self.strip_components)
        return Check(True) if done else Check(False, reason="it was not unpacked there, or its files changed since")

    async def run(self, ctx: StepContext) -> None:
        """Verifies and unpacks it; no file is ever there in part."""
        await ctx.host.archives.extract(
            self.archive,
            self.into,
            strip_components=self.strip_components,
            sha256=self.sha256,
            snapshot=snapshot(ctx),
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was in the directory before this run."""
        await restore_below(ctx, self.into)

    def reads(self) -> Resources:
        """The archive and the directory."""
        return resources(f"file:{self.archive}", f"file:{self.into}", f"file:{self.into}/*")

    def writes(self) -> Resources:
        """The directory and what is in it."""
        return resources(f"file:{self.into}", f"file:{self.into}/*")

    def describe(self) -> str:
        """Both ends."""
        return f"{self.archive.name} in {self.into}"
