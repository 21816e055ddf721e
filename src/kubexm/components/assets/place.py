"""Planning with assets: which file goes where, by each host's architecture, and what images are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from kubexm.components.assets.steps import STAMP, AssetPresent, ProgramActive
from kubexm.connector import Host
from kubexm.plan import Milestone
from kubexm.runner import STATE
from kubexm.runner.facts import PROGRAMS
from kubexm.runtime import ShelfFile, ShelfImage, TaskContext
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["activate", "asset_stamp", "image", "images", "place", "stage", "stamp_of"]

_ARCHIVE_PER_WEIGHT, _PROGRAM_PER_WEIGHT = 20_000_000, 60_000_000
"""Bytes that take about as long to bring to a host as an ordinary node takes: archives come packed already."""


def place(
    g: FragmentBuilder,
    ctx: TaskContext,
    name: str,
    *,
    on: Host | Iterable[Host],
    node: str | None = None,
    release: str = "",
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds nodes that put the bundle's file `name` where the catalog says and, if it is a program, make it active.

    `release` is the Kubernetes release whose file it is, where that is not the cluster's own.
    """
    hosts = (on,) if isinstance(on, Host) else tuple(on)
    first = next(iter(_files(ctx, name, hosts, release).values()))
    program = bool(first.install.program)
    placed = stage(
        g,
        ctx,
        name,
        on=hosts,
        node=node,
        release=release,
        after=after,
        after_same_host=after_same_host,
        needs=needs,
        provides=() if program else provides,
    )
    if not program:
        return placed
    return activate(
        g,
        ctx,
        name,
        on=hosts,
        node=f"{node or name}-active",
        release=release,
        after_same_host=[placed],
        provides=provides,
    )


def stage(
    g: FragmentBuilder,
    ctx: TaskContext,
    name: str,
    *,
    on: Host | Iterable[Host],
    node: str | None = None,
    release: str = "",
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds a node that places the file on each host, for its architecture. A program is not made active by it."""
    hosts = (on,) if isinstance(on, Host) else tuple(on)
    files = _files(ctx, name, hosts, release)
    first = next(iter(files.values()))
    install, staged = first.install, None
    if install.program:
        staged = PROGRAMS / install.program / first.version
        into = staged / "bin"
        install = replace(install, to=into if install.unpack else into / install.to.name)
    step = AssetPresent(
        name=name,
        version=first.version,
        install=install,
        sums=tuple((arch, file.sha256) for arch, file in files.items() if file.sha256 and hosts),
        release=release,
        staged=staged,
    )
    per_weight = _ARCHIVE_PER_WEIGHT if first.install.unpack else _PROGRAM_PER_WEIGHT
    weight = max(1.0, max(file.size for file in files.values()) / per_weight)
    return g.add(
        node or name,
        step,
        on=hosts,
        after=after,
        after_same_host=after_same_host,
        needs=needs,
        provides=provides,
        weight=round(weight, 1),
    )


def activate(
    g: FragmentBuilder,
    ctx: TaskContext,
    name: str,
    *,
    on: Host | Iterable[Host],
    node: str | None = None,
    release: str = "",
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds a node that makes the staged program the one that is started from now on."""
    hosts = (on,) if isinstance(on, Host) else tuple(on)
    file = next(iter(_files(ctx, name, hosts, release).values()))
    install = file.install
    step = ProgramActive(
        program=install.program,
        version=file.version,
        into=install.to if install.unpack else install.to.parent,
        members=install.members if install.unpack else (install.to.name,),
    )
    return g.add(
        node or f"{name}-active",
        step,
        on=hosts,
        after=after,
        after_same_host=after_same_host,
        needs=needs,
        provides=provides,
    )


def _files(ctx: TaskContext, name: str, hosts: Sequence[Host], release: str) -> dict[str, ShelfFile]:
    shelf = ctx.assets.release(release) if release else ctx.assets
    arches = sorted({ctx.facts(host).arch for host in hosts}) or ["amd64"]
    return {arch: shelf.file(name, arch) for arch in arches}


def stamp_of(name: str) -> PurePosixPath:
    """A small file on the host that changes only if what is active of a program does: an input for ServiceRunning."""
    return PROGRAMS / name / "current" / STAMP


def asset_stamp(name: str) -> PurePosixPath:
    """The same for an asset that is not staged by version."""
    return STATE / "assets" / name


def image(ctx: TaskContext, name: str) -> str:
    """What pods call the catalog's image `name` in this cluster: below `registry.private`, where one is set."""
    return ctx.assets.image(name).reference


def images(ctx: TaskContext, host: Host) -> tuple[ShelfImage, ...]:
    """The images this host's roles need, the biggest first."""
    return ctx.assets.images(host.roles, ctx.facts(host).arch)
