"""OS packages a host needs, from the bundle where it brings them, else from the host's own repositories.

Leaves nothing behind but the packages themselves, which the runner notes as kubexm's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.assets import catalog
from kubexm.cache import Key, Scope
from kubexm.connector import Host, Upload
from kubexm.connector.base import shell
from kubexm.errors import CommandError
from kubexm.plan import Milestone
from kubexm.runner import Facts
from kubexm.runtime import StepContext, TaskContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.step.undo import recall, remember
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["PackageFile", "PackageNeed", "PackagesPlaced", "WantedPackage", "os_packages", "place_packages"]

_NEW: Key[list[str]] = Key("assets.packages.new", per_host=True, scope=Scope.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPackage:
    """A package, and the roles that need it; without roles everybody does."""

    name: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A package file of the bundle."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageNeed:
    """What hosts of one distribution and architecture need, and the files that bring it, if the bundle has them."""

    target: str
    """DISTRO-ARCH, as bundles name it."""
    packages: tuple[WantedPackage, ...]
    files: tuple[PackageFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesPlaced(Step):
    """The packages this host's roles need are installed; what is there already, in whatever version, is left alone."""

    needs: tuple[PackageNeed, ...]

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks the package database, in one read."""
        names = self._names(ctx)
        if not names:
            return Check(True)
        found = await ctx.host.packages.installed(names)
        missing = [name for name in names if name not in found]
        return Check(False, reason=f"missing: {', '.join(missing)}") if missing else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Installs what is missing; of the bundle's files only those of packages the host lacks are sent."""
        need, names = self._need(ctx), self._names(ctx)
        brought = {file.name for file in need.files}
        from_bundle = [name for name in names if name in brought]
        installed = await ctx.host.packages.installed([*{*names, *brought}])
        missing = [name for name in names if name not in installed]
        new: list[str] = []
        if any(name not in installed for name in from_bundle):
            new += await self._install_files(ctx, need, set(installed))
        elsewhere = [name for name in missing if name not in brought]
        if elsewhere:
            new += await ctx.host.packages.install(elsewhere)
        remember(ctx, _NEW, new)

    async def rollback(self, ctx: StepContext) -> None:
        """Removes what this run brought, except what other packages need by now."""
        new = recall(ctx, _NEW)
        needed = await ctx.host.packages.remove(new) if new else ()
        if needed:
            ctx.warn(f"other packages need {', '.join(needed)} by now, so they stay")

    def reads(self) -> Resources:
        """The packages."""
        return resources(*(f"package:{item.name}" for need in self.needs for item in need.packages))

    def writes(self) -> Resources:
        """All packages: dependencies come along, and the database is locked."""
        return resources("package:*")

    def sums_needed(self) -> tuple[str, ...]:
        """Of each package file."""
        return tuple(file.sha256 for need in self.needs for file in need.files)

    def describe(self) -> str:
        """Their names."""
        return "packages " + ", ".join(dict.fromkeys(item.name for need in self.needs for item in need.packages))

    async def _install_files(self, ctx: StepContext, need: PackageNeed, installed: set[str]) -> list[str]:
        lacking = [file for file in need.files if file.name not in installed]
        try:
            return await self._sent(ctx, lacking)
        except CommandError:
            # What is there may be older than what the new ones need: all the files together are sure to fit.
            if len(lacking) == len(need.files):
                raise
            return await self._sent(ctx, need.files)

    async def _sent(self, ctx: StepContext, files: Sequence[PackageFile]) -> list[str]:
        place = ctx.host.placed.place / "packages"
        await ctx.host.command.run(f"umask 077; mkdir -p -- {shell(place)}", display="make room for packages")
        places: list[PurePosixPath] = []
        try:
            for file in files:
                source = ctx.assets.local(file.path, ctx.facts.arch, sha256=file.sha256)
                places.append(place / source.name)
                await ctx.host.connector.upload(
                    Upload(source=source, path=places[-1], mode=0o600, sha256=file.sha256, durable=False)
                )
            return list(await ctx.host.packages.install_files(places))
        finally:
            await ctx.host.command.run(shell("rm", "-rf", "--", place), display="remove package files")

    def _need(self, ctx: StepContext) -> PackageNeed:
        target = target_of(ctx.facts)
        found = next((need for need in self.needs if need.target == target), None)
        return found or PackageNeed(target=target, packages=())

    def _names(self, ctx: StepContext) -> list[str]:
        roles = ctx.host.host.roles
        wanted = self._need(ctx).packages
        return [item.name for item in wanted if not item.roles or roles & set(item.roles)]


def target_of(facts: Facts) -> str:
    """DISTRO-ARCH as bundles name it, such as debian-12-amd64."""
    return f"{facts.os.id}-{facts.os.version}-{facts.arch}".lower()


def os_packages(ctx: TaskContext, host: Host) -> tuple[str, ...]:
    """The packages the host's roles need, by the names its package manager knows."""
    return tuple(item.name for item in _wanted(ctx.facts(host)) if host.roles & set(item.roles))


def place_packages(
    g: FragmentBuilder,
    ctx: TaskContext,
    *,
    on: Iterable[Host],
    extra: Sequence[str] = (),
    node: str = "packages",
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds a node that installs what the hosts' roles need, and `extra` on all of them."""
    hosts = tuple(on)
    targets = {target_of(ctx.facts(host)): ctx.facts(host) for host in hosts}
    chosen = []
    for target, facts in sorted(targets.items()):
        known = ctx.assets.packages(target)
        files = known.packages if known is not None else ()
        chosen.append(
            PackageNeed(
                target=target,
                packages=(*_wanted(facts), *(WantedPackage(name=name) for name in extra)),
                files=tuple(PackageFile(name=file.name, path=file.path, sha256=file.sha256) for file in files),
            )
        )
    return g.add(
        node,
        PackagesPlaced(needs=tuple(chosen)),
        on=hosts,
        after=after,
        after_same_host=after_same_host,
        needs=needs,
        provides=provides,
    )


def _wanted(facts: Facts) -> tuple[WantedPackage, ...]:
    """What the catalog lists for the host's package manager; nothing where it knows none."""
    manager = {"yum": "dnf"}.get(facts.package_manager, facts.package_manager)
    if not manager:
        return ()
    return tuple(WantedPackage(name=item.name, roles=item.roles) for item in catalog.packages(manager))
