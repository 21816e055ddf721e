"""Planning with assets: which file goes where, by each host's architecture, and what images are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from kubexm.components.assets.steps import AssetPresent
from kubexm.connector import Host
from kubexm.plan import Milestone
from kubexm.runner import STATE
from kubexm.runtime import ShelfImage, TaskContext
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["image", "images", "place", "stamp_of"]

_ARCHIVE_PER_WEIGHT, _PROGRAM_PER_WEIGHT = 20_000_000, 60_000_000
"""Bytes that take about as long to bring to a host as an ordinary node takes: archives come packed already."""


def place(
    g: FragmentBuilder,
    ctx: TaskContext,
    name: str,
    *,
    on: Host | Iterable[Host],
    node: str | None = None,
    after: Sequence[NodeHandle] = (),
    after_same_host: Sequence[NodeHandle] = (),
    needs: Milestone | Sequence[Milestone] = (),
    provides: Milestone | Sequence[Milestone] = (),
) -> NodeHandle:
    """Adds a node that puts the bundle's file `name` where the catalog says, on each host for its architecture."""
    hosts = (on,) if isinstance(on, Host) else tuple(on)
    arches = sorted({ctx.facts(host).arch for host in hosts}) or ["amd64"]
    files = {arch: ctx.assets.file(name, arch) for arch in arches}
    first = files[arches[0]]
    step = AssetPresent(
        name=name,
        version=first.version,
        install=first.install,
        sums=tuple((arch, file.sha256) for arch, file in files.items() if file.sha256 and hosts),
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


def stamp_of(name: str) -> PurePosixPath:
    """A small file on the host that changes only if the asset does: an input for ServiceRunning."""
    return STATE / "assets" / name


def image(ctx: TaskContext, name: str) -> str:
    """What pods call the catalog's image `name` in this cluster: below `registry.private`, where one is set."""
    return ctx.assets.image(name).reference


def images(ctx: TaskContext, host: Host) -> tuple[ShelfImage, ...]:
    """The images this host's roles need, the biggest first."""
    return ctx.assets.images(host.roles, ctx.facts(host).arch)
