"""Addons that left the file leave the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.components.addons import charts, manifests
from kubexm.components.api import Inventory, apply_manifests, find_inventories, kube_client
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["NoOtherAddons"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOtherAddons(Step):
    """No addon is in the cluster that an earlier version of the file had and this one has not."""

    keep: tuple[str, ...]
    """The addons of the file, by the names their inventories have."""
    patience: float = 120.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for all inventories of addons."""
        found = await self._others(ctx)
        if found is None:
            return Check(False, reason="the API does not answer yet")
        if not found:
            return Check(True)
        names = ", ".join(one.name for one in found)
        return Check(False, reason=f"to go: {names}", diff="\n".join(_removal(one) for one in found))

    async def run(self, ctx: StepContext) -> None:
        """Removes their objects and releases, then their inventories."""
        for one in await self._others(ctx, patience=self.patience) or ():
            if one.group == charts.GROUP:
                for entry in one.entries:
                    await charts.uninstall(ctx, entry.ref.name, entry.ref.namespace)
            await apply_manifests(ctx, one.name, "", namespace="default", group=one.group, patience=self.patience)

    async def _others(self, ctx: StepContext, *, patience: float = 5.0) -> list[Inventory] | None:
        groups = (manifests.GROUP, charts.GROUP)
        found = await find_inventories(kube_client(ctx), groups, patience=patience)
        return None if found is None else [one for one in found if one.name not in self.keep]

    def reads(self) -> Resources:
        """Every addon there is."""
        return resources("api:addon-*")

    def writes(self) -> Resources:
        """Every addon there is."""
        return resources("api:addon-*")

    def describe(self) -> str:
        """The state."""
        return "no addons but those of the file"


def _removal(inventory: Inventory) -> str:
    lines = [f"-{entry.ref}" for entry in inventory.entries]
    return "\n".join((f"--- {inventory.name} (now)", "+++ /dev/null", *lines))
