"""Parts of files that others write too: single lines, and marked blocks. Must not know what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.errors import StepError
from kubexm.runner.lines import BlockError, with_block, with_line, without_block, without_line
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.content import unified
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import restore, snapshot

__all__ = ["BlockInFile", "HostsEntries", "LineInFile"]

_HOSTS = PurePosixPath("/etc/hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edited(Step):
    """A file whose text, put through `_edited`, stays as it is."""

    path: PurePosixPath

    def _edited(self, text: str) -> str:
        raise NotImplementedError

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the file once and compares it with what it would become."""
        old = await ctx.host.files.read(self.path)
        text = (old or b"").decode(errors="surrogateescape")
        new = self._tried(text, ctx)
        if new == text:
            return Check(True)
        diff = unified(self.path, old, new.encode(errors="surrogateescape"))
        return Check(False, reason=self._reason(), diff=diff)

    async def run(self, ctx: StepContext) -> None:
        """Edits the file; what others write to it meanwhile is not lost."""
        await ctx.host.files.edit(self.path, lambda text: self._tried(text, ctx), snapshot=snapshot(ctx))

    async def rollback(self, ctx: StepContext) -> None:
        """Puts the file back as it was before this run, unless others wrote to it since."""
        await restore(ctx, self.path)

    def reads(self) -> Resources:
        """The file."""
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        """The file."""
        return resources(f"file:{self.path}")

    def _reason(self) -> str:
        return "it is not so yet"

    def _tried(self, text: str, ctx: StepContext) -> str:
        try:
            return self._edited(text)
        except BlockError as error:
            raise StepError(
                f"{self.path}: a block in it is damaged: {error}",
                host=ctx.host.name,
                hint=f"remove what is left of the block from {self.path} by hand, then run again",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LineInFile(_Edited):
    """The file has this line (in place of those `match`, a regular expression, finds), or has it not."""

    line: str
    match: str | None = None
    present: bool = True

    def __post_init__(self) -> None:
        if "\n" in self.line:
            raise ValueError(f"a line has no line breaks: {self.line!r}")
        if self.match is not None:
            re.compile(self.match)

    def describe(self) -> str:
        """The line and its file."""
        return f"{'line' if self.present else 'no line'} {self.line!r} in {self.path}"

    def _edited(self, text: str) -> str:
        edit = with_line if self.present else without_line
        return edit(text, self.line, self.match)

    def _reason(self) -> str:
        return "the line is missing" if self.present else "the line is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockInFile(_Edited):
    """The file has this block between two marks of its own, or has no such block. The rest of the file is left alone.

    The marks are comments that start with `#`.
    """

    name: str
    """What the marks say; one block of each name in a file."""
    body: str = ""
    present: bool = True

    def describe(self) -> str:
        """The block and its file."""
        return f"{'block' if self.present else 'no block'} {self.name!r} in {self.path}"

    def _edited(self, text: str) -> str:
        return with_block(text, self.name, self.body) if self.present else without_block(text, self.name)

    def _reason(self) -> str:
        return "the block is missing or differs" if self.present else "the block is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsEntries(_Edited):
    """/etc/hosts has exactly these entries in kubexm's block, or no such block where there are none."""

    entries: tuple[tuple[str, tuple[str, ...]], ...]
    """Addresses and the names each has, in order."""
    name: str = "kubexm"
    path: PurePosixPath = _HOSTS

    def describe(self) -> str:
        """How many."""
        return f"{len(self.entries)} entries in {self.path}"

    def _edited(self, text: str) -> str:
        body = "".join(f"{address} {' '.join(names)}\n" for address, names in self.entries)
        return with_block(text, self.name, body) if body else without_block(text, self.name)

    def _reason(self) -> str:
        return "entries are missing or differ"
