"""Files that are there, with their content, mode and owner, or are not. Must not know what they are for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from kubexm.cache import Key
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import LocalFile, StepContext
from kubexm.step.base import Check, Step
from kubexm.step.content import look_at, sha256_of, unified
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import restore, snapshot

__all__ = ["Content", "FileAbsent", "FilePresent", "FileUploaded"]

Content = str | bytes | SecretRef | Key[str] | Key[Secret]
"""What a file holds: itself, the name of a secret, or the key of a value that an earlier step produces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePresent(Step):
    """A plain file is there with this content, mode and owner; directories above it are made."""

    path: PurePosixPath
    content: Content
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares in one read; tells what differs, and shows it unless it is secret."""
        if isinstance(self.content, Key) and not ctx.has(self.content):
            return Check(False, reason=f"its content, {self.content}, is not there yet")
        if isinstance(self.content, SecretRef) and not ctx.has_secret(self.content):
            return Check(False, reason=f"its content, the secret {self.content.name}, is not made yet")
        data = self._bytes(ctx)
        digest = sha256_of(data)
        found = await look_at(ctx.host, self.path, sha256=digest, show=not self._secret)
        faults = found.faults(sha256=digest, mode=self.mode, owner=self.owner, group=self.group)
        if not faults:
            return Check(True)
        known = found.kind == "absent" or found.content is not None
        diff = unified(self.path, found.content, data) if known and not self._secret else ""
        return Check(False, reason="; ".join(faults), diff=diff)

    async def run(self, ctx: StepContext) -> None:
        """Writes it, whole or not at all."""
        await ctx.host.files.write(
            self.path,
            self._bytes(ctx),
            mode=self.mode,
            owner=self.owner,
            group=self.group,
            snapshot=snapshot(ctx),
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The file, and the secret it is compared with."""
        secret = (f"secret:{self.content.name}",) if isinstance(self.content, SecretRef) else ()
        return resources(f"file:{self.path}", *secret)

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{self.path}")

    def consumes(self) -> tuple[Key[Any], ...]:
        """The content, where another step produces it."""
        return (self.content,) if isinstance(self.content, Key) else ()

    def describe(self) -> str:
        """The path."""
        return f"file {self.path}"

    @property
    def _secret(self) -> bool:
        return isinstance(self.content, SecretRef) or (isinstance(self.content, Key) and self.content.secret)

    def _bytes(self, ctx: StepContext) -> bytes:
        content: str | bytes | Secret
        match self.content:
            case SecretRef():
                content = ctx.secret(self.content)
            case Key():
                produced: str | Secret = ctx.value(cast("Key[Any]", self.content))
                content = produced
            case _:
                content = self.content
        if isinstance(content, Secret):
            content = content.reveal()
        return content.encode() if isinstance(content, str) else content


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAbsent(Step):
    """No file, link or empty directory is at this path. A directory with something in it is an error."""

    path: PurePosixPath

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks."""
        return Check(False, reason="it is there") if await ctx.host.files.exists(self.path) else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes it, keeping how it was."""
        await ctx.host.files.remove(self.path, snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts it back."""
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The path."""
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        """The path."""
        return resources(f"file:{self.path}")

    def describe(self) -> str:
        """The path."""
        return f"no file {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUploaded(Step):
    """A file of the control machine is there, whole, with this mode and owner."""

    source: str
    """Path on the control machine."""
    path: PurePosixPath
    sha256: str
    """Of the source, known when planning: what is there already is never sent again."""
    size: int | None = None
    """Of the source, where known: a cheap first look at large files."""
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares by digest, in one read."""
        same = await ctx.host.files.matches(
            self.path, sha256=self.sha256, size=self.size, mode=self.mode, owner=self.owner, group=self.group
        )
        return Check(True) if same else Check(False, reason="it is not there, or differs")

    async def run(self, ctx: StepContext) -> None:
        """Sends it; refuses a source that is not the one planned."""
        source = await asyncio.to_thread(ctx.source, self.source, self.sha256)
        await ctx.host.files.upload(
            source,
            self.path,
            sha256=self.sha256,
            mode=self.mode,
            owner=self.owner,
            group=self.group,
            snapshot=snapshot(ctx),
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The file."""
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{self.path}")

    def describe(self) -> str:
        """The path."""
        return f"file {self.path} from {self.source}"

    def sources(self) -> tuple[LocalFile, ...]:
        """The source."""
        return (LocalFile(self.source, self.sha256),)
