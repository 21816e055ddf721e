"""Which images go to which nodes: those their roles need, the biggest first, sent before containerd is even there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubexm.components import topology
from kubexm.components.assets import images
from kubexm.components.images.steps import ImagesImported, ImagesPulled, ImagesSent, WantedImage
from kubexm.components.milestones import IMAGES_PRESENT, RUNTIME_READY, RUNTIME_STARTED
from kubexm.components.runtimes import runtime_of
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.runtime import ShelfImage, TaskContext
from kubexm.task import FragmentBuilder, Task

__all__ = ["BringImages"]

_SENT_PER_WEIGHT = 20_000_000
_IMPORTED_PER_WEIGHT = 100_000_000
"""Bytes that take about as long as an ordinary node does."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that need the same images."""

    name: str
    hosts: tuple[Host, ...]
    images: tuple[ShelfImage, ...]


class BringImages(Task):
    """Sends and imports what the bundle holds, and has nodes pull the rest."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """For each group of nodes: send at once, import as soon as containerd runs."""
        g = FragmentBuilder("images.bring")
        for group in _groups(ctx):
            self._add(g, group, runtime_of(ctx.cluster).name)
        return g.build()

    def _add(self, g: FragmentBuilder, group: _Group, runtime: str) -> None:
        brought = [image for image in group.images if image.bundled]
        pulled = [image for image in group.images if not image.bundled]
        size = sum(image.size for image in brought)
        last = []
        if brought or not pulled:
            wanted = _wanted(brought)
            send = g.add(
                f"send-{group.name}",
                ImagesSent(images=wanted, runtime=runtime),
                on=group.hosts,
                weight=max(1.0, round(size / _SENT_PER_WEIGHT, 1)),
            )
            taken = g.add(
                f"import-{group.name}",
                ImagesImported(images=wanted, runtime=runtime),
                on=group.hosts,
                after_same_host=[send],
                needs=RUNTIME_STARTED,
                provides=() if pulled else IMAGES_PRESENT,
                weight=max(1.0, round(size / _IMPORTED_PER_WEIGHT, 1)),
            )
            last = [taken]
        if pulled:
            g.add(
                f"pull-{group.name}",
                ImagesPulled(images=_wanted(pulled), runtime=runtime),
                on=group.hosts,
                after_same_host=last,
                needs=RUNTIME_READY,
                provides=IMAGES_PRESENT,
                weight=5.0,
            )


def _wanted(found: Iterable[ShelfImage]) -> tuple[WantedImage, ...]:
    return tuple(WantedImage(name=image.name, reference=image.reference, digest=image.digest) for image in found)


def _groups(ctx: TaskContext) -> list[_Group]:
    """Nodes by what they need, in the order of the file."""
    found: dict[tuple[ShelfImage, ...], list[Host]] = {}
    for host in topology.nodes(ctx):
        found.setdefault(images(ctx, host), []).append(host)
    groups: list[_Group] = []
    for needed, hosts in found.items():
        plane = "controlPlane" in hosts[0].roles
        name = "control-plane" if plane else "worker"
        taken = {group.name for group in groups}
        if name in taken:  # another architecture, or other roles beside
            name = next(f"{name}-{number}" for number in range(2, 100) if f"{name}-{number}" not in taken)
        groups.append(_Group(name, tuple(hosts), needed))
    return groups
