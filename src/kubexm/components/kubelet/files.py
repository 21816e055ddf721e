"""One file that differs from host to host, as one node of the plan. Must not know what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.errors import StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, FilePresent, Resources, Step

__all__ = ["FileOfHost", "Variant", "variants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What the file holds on some hosts."""

    hosts: tuple[str, ...]
    content: str


def variants(contents: Mapping[str, str]) -> tuple[Variant, ...]:
    """The hosts of each distinct content, in order of first mention: keeps plans of many hosts small."""
    groups: dict[str, list[str]] = {}
    for host, content in contents.items():
        groups.setdefault(content, []).append(host)
    return tuple(Variant(hosts=tuple(hosts), content=content) for content, hosts in groups.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfHost(Step):
    """A file is there with the content meant for this host, and this mode; root owns it."""

    path: PurePosixPath
    contents: tuple[Variant, ...]
    mode: int = 0o600

    async def precheck(self, ctx: StepContext) -> Check:
        """Compares in one read, and shows what differs."""
        return await self._file(ctx).precheck(ctx)

    async def run(self, ctx: StepContext) -> None:
        """Writes it, whole or not at all."""
        await self._file(ctx).run(ctx)

    async def rollback(self, ctx: StepContext) -> None:
        """Puts back what was there before this run."""
        await self._file(ctx).rollback(ctx)

    def reads(self) -> Resources:
        """The file."""
        return self.writes()

    def writes(self) -> Resources:
        """The file."""
        return frozenset({f"file:{self.path}"})

    def describe(self) -> str:
        """The path."""
        return f"file {self.path}"

    def _file(self, ctx: StepContext) -> FilePresent:
        for variant in self.contents:
            if ctx.host.name in variant.hosts:
                return FilePresent(path=self.path, content=variant.content, mode=self.mode)
        raise StepError(f"{self.path}: the plan has no content for this host", host=ctx.host.name)
