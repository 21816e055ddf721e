"""Commands, for states that have no step of their own. Must not guess what a command does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.redact import Secret, SecretRef
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import EVERYTHING, Resources, resources

__all__ = ["CommandRun"]

Command = str | tuple[str, ...]
"""Shell text as it is, or words that are quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun(Step):
    """A command was run. With `creates` or `unless` it is run only where that does not hold yet; else each time."""

    commands: ClassVar[int | None] = 1

    command: Command
    name: str = ""
    """What it does, for people; by default the command itself."""
    creates: PurePosixPath | None = None
    """The command is done if this path is there."""
    unless: Command | None = None
    """The command is done if this one, which only reads, exits with 0."""
    env: Mapping[str, str | SecretRef] = field(default_factory=dict, hash=False)
    stdin: str | SecretRef = ""
    within: float = 600.0
    """Seconds until it is ended, on the host itself."""
    touches: Resources = EVERYTHING
    """What it may change."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads whether it is done already, where that can be read."""
        if self.creates is not None and not await ctx.host.files.exists(self.creates):
            return Check(False, reason=f"{self.creates} is not there")
        if self.unless is not None and not await ctx.host.command.succeeds(self.unless):
            return Check(False, reason="its test says that it is not done")
        return Check.unreadable() if self.creates is None and self.unless is None else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Runs it once; fails unless it exits with 0."""
        stdin = ctx.secret(self.stdin).reveal() if isinstance(self.stdin, SecretRef) else self.stdin
        env: dict[str, str | Secret] = {
            key: ctx.secret(value) if isinstance(value, SecretRef) else value for key, value in self.env.items()
        }
        await ctx.host.command.run(
            self.command,
            stdin=stdin.encode() if stdin else None,
            env=env,
            within=self.within,
            long=True,
            display=self.name,
        )

    def reads(self) -> Resources:
        """What its test looks at: with `creates` alone that path."""
        return resources(f"file:{self.creates}") if self.creates is not None and self.unless is None else EVERYTHING

    def writes(self) -> Resources:
        """What it was said to change."""
        return self.touches

    def describe(self) -> str:
        """Its name, or the command in one line."""
        if self.name:
            return self.name
        text = self.command if isinstance(self.command, str) else " ".join(self.command)
        line = " ".join(text.split())
        return line if len(line) <= 100 else f"{line[:99]}…"
