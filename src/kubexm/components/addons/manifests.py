"""An addon of the user's own manifests, applied from files of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubexm.components.addons.sources import SourceFile, local_files, read_text
from kubexm.components.api import (
    Workload,
    apply_manifests,
    check_manifests,
    objects_of,
    undo_manifests,
    workloads_of,
)
from kubexm.runtime import LocalFile, StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["GROUP", "AddonApplied", "workloads_in"]

GROUP: Final = "addon"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonApplied(Step):
    """The objects of these manifests are in the cluster as written, and none that an earlier version of them had."""

    name: str
    """Of the manifests in the cluster."""
    files: tuple[SourceFile, ...]
    namespace: str = "default"
    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the files here, and asks for all their objects at once."""
        return await check_manifests(ctx, self.name, read_text(self.files, ctx.source), self.namespace)

    async def run(self, ctx: StepContext) -> None:
        """Applies all, and removes what left the manifests."""
        await apply_manifests(
            ctx,
            self.name,
            read_text(self.files, ctx.source),
            namespace=self.namespace,
            group=GROUP,
            patience=self.patience,
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Applies what this run found, or removes it all if there was nothing."""
        await undo_manifests(ctx, self.name, namespace=self.namespace, group=GROUP, patience=self.patience)

    def reads(self) -> Resources:
        """The addon's objects."""
        return resources(f"api:{self.name}")

    def writes(self) -> Resources:
        """The addon's objects."""
        return resources(f"api:{self.name}")

    def sources(self) -> tuple[LocalFile, ...]:
        """The manifests."""
        return local_files(self.files)

    def describe(self) -> str:
        """Which addon."""
        return f"manifests {self.name}"


def workloads_in(files: tuple[SourceFile, ...], name: str, namespace: str) -> tuple[Workload, ...]:
    """What of an addon can be waited for; also proves, while planning, that its manifests can be read."""
    return workloads_of(objects_of(read_text(files), name, namespace))
