"""The files of an asset are on a host. Must not know what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.assets.catalog import Install
from kubexm.errors import AssetError
from kubexm.runner.facts import PROGRAMS
from kubexm.runtime import AssetShelf, ShelfFile, StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import restore, restore_below, snapshot, was_absent

__all__ = ["AssetPresent", "ProgramActive", "ProgramsPruned"]

STAMP = "stamp"
"""In the directory of a version: what was placed there. Small, and different for each version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPresent(Step):
    """A file of the bundle is where it belongs, or the members of an archive are."""

    name: str
    version: str
    install: Install
    sums: tuple[tuple[str, str], ...] = ()
    """sha256 by architecture, as planned; where it is not known, that of the bundle at hand counts."""
    release: str = ""
    """The Kubernetes release whose file it is; empty: the cluster's own."""
    staged: PurePosixPath | None = None
    """The directory of this version of a program, which is kubexm's own: the files go below it, with their stamp."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares what was put there with its stamp, in one read."""
        sha256 = self._sha256(ctx)
        if not sha256:
            return Check(False, reason=f"which {self.name} it should be is not known without a bundle")
        reason = await ctx.host.placed.why_not(self.name, sha256, stamp=self._stamp)
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
                stamp=self._stamp,
                keep=self.staged is None,
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
                stamp=self._stamp,
                keep=self.staged is None,
                snapshot=snapshot(ctx),
            )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        if self.staged is not None and await was_absent(ctx, self.staged):
            await ctx.host.directories.remove(self.staged)
        elif self.install.unpack and not self.install.members:
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
        below += [f"file:{self.staged}/*"] if self.staged is not None else []
        return resources(f"asset:{self.name}", *(f"file:{path}" for path in self.paths), *below)

    def sums_needed(self) -> tuple[str, ...]:
        """Of each architecture."""
        return tuple(sha256 for _, sha256 in self.sums)

    def describe(self) -> str:
        """What and where."""
        return f"{self.name} {self.version} in {self.install.to}"

    @property
    def _stamp(self) -> PurePosixPath | None:
        return self.staged / STAMP if self.staged is not None else None

    def _file(self, ctx: StepContext) -> ShelfFile:
        shelf = self._shelf(ctx)
        file = shelf.file(self.name, ctx.facts.arch)
        if not file.sha256:
            shelf.bundle(ctx.facts.arch)  # says what to do
            raise AssetError(f"the bundle does not tell the sha256 of {self.name}")
        return file

    def _sha256(self, ctx: StepContext) -> str:
        planned = dict(self.sums).get(ctx.facts.arch, "")
        return planned or self._shelf(ctx).file(self.name, ctx.facts.arch).sha256

    def _shelf(self, ctx: StepContext) -> AssetShelf:
        return ctx.assets.release(self.release) if self.release else ctx.assets


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramActive(Step):
    """A staged version of a program is the one that is started: by its name, by its unit, by whoever calls it.

    All of its files switch with one rename. The links that lead to it are made the first time, and what they replace is
    kept. What runs goes on in the version it was started in.
    """

    program: str
    version: str
    into: PurePosixPath
    """Where the links are."""
    members: tuple[str, ...] = ()
    """Their names; empty: one for each file of the version."""
    root: PurePosixPath = PROGRAMS

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at the links, in one read."""
        reason = await ctx.host.staged.why_not(self.root, self.program, self.version, self.into, self.members)
        return Check(False, reason=reason) if reason else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Switches, in one command."""
        await ctx.host.staged.activate(
            self.root, self.program, self.version, self.into, self.members, snapshot=snapshot(ctx)
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was active before this run, and what the links replaced."""
        own = self.root / self.program
        await restore(ctx, own / "current", own / "previous")
        if self.members:
            await restore(ctx, *(self.into / member for member in self.members))
        else:
            await restore_below(ctx, self.into)

    def reads(self) -> Resources:
        """The links, and what they lead to."""
        return self.writes()

    def writes(self) -> Resources:
        """The links, and what is read through them."""
        links = [f"file:{self.into / member}" for member in self.members] or [f"file:{self.into}/*"]
        return resources(f"file:{self.root / self.program}/*", *links)

    def describe(self) -> str:
        """What and where."""
        return f"{self.program} {self.version} active in {self.into}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsPruned(Step):
    """No version of a program is left that nothing refers to.

    Stay: what is active and what was before it, what a process runs, what containerd would start to end a container,
    and what this plan placed.
    """

    keep: tuple[str, ...] = ()
    """NAME/VERSION of what this plan placed."""
    root: PurePosixPath = PROGRAMS

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks at links, processes and containers, in one read."""
        found = await ctx.host.staged.prunable(self.root, self.keep)
        names = ", ".join("/".join(PurePosixPath(path).parts[-2:]) for path in found)
        return Check(False, reason=f"nothing uses {names}") if found else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes them; looks again just before."""
        await ctx.host.staged.prune(self.root, self.keep)

    def reads(self) -> Resources:
        """Staged programs, and processes."""
        return resources(f"file:{self.root}/*", "process:*")

    def writes(self) -> Resources:
        """Staged programs."""
        return resources(f"file:{self.root}/*")

    def describe(self) -> str:
        """The state."""
        return "no unused versions of programs"
