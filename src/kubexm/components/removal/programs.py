"""Staged programs when the container runtime is kept: its own stay, all others go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.facts import PROGRAMS
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["OWN", "ProgramsGone"]

OWN = PROGRAMS.parent
"""Everything below is kubexm's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsGone(Step):
    """Of kubexm's own directory of programs only those that are kept on purpose are left."""

    keep: tuple[str, ...]
    """Names of programs."""
    root: PurePosixPath = OWN

    async def precheck(self, ctx: StepContext) -> Check:
        """Lists what is to go, in one read."""
        found = (await ctx.host.command.read(f"{self._script}kx_others", display="list staged programs")).text
        return Check(False, reason=f"{len(found.splitlines())} to remove") if found else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes it."""
        remove = 'kx_others | while IFS= read -r p; do rm -rf --one-file-system -- "$p" || exit 1; done'
        await ctx.host.command.run(f"{self._script}{remove}", display="remove staged programs", long=True)

    def reads(self) -> Resources:
        """kubexm's own directory of programs."""
        return self.writes()

    def writes(self) -> Resources:
        """kubexm's own directory of programs."""
        return resources(f"file:{self.root}/*")

    def describe(self) -> str:
        """The state."""
        return f"no staged programs but {', '.join(self.keep)}"

    @property
    def _script(self) -> str:
        programs = self.root / PROGRAMS.name
        kept = "|".join(shell(programs / name) for name in self.keep)
        return f"""kx_others() {{
  for p in {shell(self.root)}/* {shell(programs)}/*; do
    case $p in {shell(programs)}|{kept}) continue ;; esac
    if [ -e "$p" ] || [ -L "$p" ]; then printf '%s\\n' "$p"; fi
  done
}}
"""
