"""Packages of the distribution. Must not know what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.cache import Key, Scope
from kubexm.runtime import StepContext
from kubexm.step.base import Check, Step
from kubexm.step.resources import Resources, resources
from kubexm.step.undo import recall, remember

__all__ = ["PackagesInstalled"]

_NEW: Key[list[str]] = Key("step.packages.new", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesInstalled(Step):
    """These packages are installed, by the distribution's own names; `name=version` asks for that very version."""

    packages: tuple[str, ...]
    files: tuple[PurePosixPath, ...] = ()
    """Package files on the host that bring them with all they depend on; without, the host's repositories are used."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the package database, in one read."""
        found = await ctx.host.packages.installed(self.packages)
        missing = [name for name in self.packages if not _satisfied(name, found)]
        return Check(False, reason=f"missing: {', '.join(missing)}") if missing else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Installs what is missing and notes what came new."""
        packages = ctx.host.packages
        new = await (packages.install_files(self.files) if self.files else packages.install(self.packages))
        remember(ctx, _NEW, list(new))

    async def rollback(self, ctx: StepContext) -> None:
        """Removes what this run brought, except what other packages need by now."""
        new = recall(ctx, _NEW)
        needed = await ctx.host.packages.remove(new) if new else ()
        if needed:
            ctx.warn(f"other packages need {', '.join(needed)} by now, so they stay")

    def reads(self) -> Resources:
        """The packages."""
        return resources(*(f"package:{name.partition('=')[0]}" for name in self.packages))

    def writes(self) -> Resources:
        """All packages: dependencies come along, and the database is locked."""
        return resources("package:*")

    def describe(self) -> str:
        """Their names."""
        return "packages " + ", ".join(self.packages)


def _satisfied(wanted: str, found: dict[str, str]) -> bool:
    name, _, version = wanted.partition("=")
    return name in found and (not version or found[name] == version)
