"""Manifests that are applied, exactly: what differs is changed, what left them is removed, nobody else's is touched.

Server-side apply in the name of `kubexm`. What the file says wins over what somebody changed by hand since
(--force-conflicts); fields that no manifest names stay whoever's they are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubexm.cache import Key, Scope
from kubexm.components.api.client import KubeClient, kube_client
from kubexm.components.api.difference import changes_of, removal_of
from kubexm.components.api.documents import ManifestObject, Ref, objects_of
from kubexm.components.api.inventory import Entry, Inventory, inventory_ref
from kubexm.components.api.objects import Seen, see, seen_as, seen_in
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["ManifestsApplied", "apply_manifests", "check_manifests", "note_group", "undo_manifests"]

_SHOWN = 3
_ABSENT = Key[bool]("inventory-absent", scope=Scope.STEP)
"""Whether precheck saw no inventory, from then until something is applied."""
_OWN = "component"
_FIRST = ("Namespace", "CustomResourceDefinition")
_LAST = ("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "StatefulSet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsApplied(Step):
    """These objects are in the cluster as written, and none that an earlier version of them had. No text: none at all.

    The manifests are part of the plan, so they hold no secrets.
    """

    name: str
    """Of the manifests, in the cluster and in plans: letters of a DNS label."""
    manifests: str = ""
    """YAML, one document or many (see `kubexm.components.documents.yaml_stream`)."""
    namespace: str = "default"
    """For objects that name none; made if it is not there."""
    group: str = _OWN
    """What the manifests belong to."""
    patience: float = 120.0
    """Seconds to go on trying while the API is away or not ready for an object."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for the objects and the inventory at once, and compares each with how it was left."""
        return await check_manifests(ctx, self.name, self.manifests, self.namespace)

    async def run(self, ctx: StepContext) -> None:
        """Applies all, removes what left, and notes how things were left."""
        await apply_manifests(
            ctx, self.name, self.manifests, namespace=self.namespace, group=self.group, patience=self.patience
        )

    async def rollback(self, ctx: StepContext) -> None:
        """Applies what this run found, or removes it all if there was nothing."""
        await undo_manifests(ctx, self.name, namespace=self.namespace, group=self.group, patience=self.patience)

    def reads(self) -> Resources:
        """These objects: nobody else applies them."""
        return resources(f"api:{self.name}")

    def writes(self) -> Resources:
        """These objects, so that different manifests are applied beside each other."""
        return resources(f"api:{self.name}")

    def describe(self) -> str:
        """Their name."""
        return f"manifests {self.name}" if self.manifests else f"no manifests {self.name}"


async def check_manifests(ctx: StepContext, name: str, manifests: str, namespace: str) -> Check:
    """Whether the cluster has exactly these objects; what would change, if not."""
    objects, client = objects_of(manifests, name, namespace), kube_client(ctx)
    own = inventory_ref(name)
    try:
        seen = await see(client, [own, *(item.ref for item in objects)])
    except ApiUnavailable:
        return Check(False, reason="the API does not answer yet", diff=await _differences(None, objects))
    noted = seen_as(own, seen)
    ctx.cache.set(_ABSENT, noted is None)
    if noted is None:
        diff = await _differences(client if seen else None, objects)
        return Check(False, reason="they are not applied yet", diff=diff) if objects else Check(True)
    inventory = Inventory.of(noted)
    stale = inventory.stale(objects)
    wrong = [item for item in objects if not _stands(inventory.entry(item.ref), item, seen)]
    if objects and not wrong and not stale:
        return Check(True)
    named = [*(str(item.ref) for item in wrong), *(f"{entry.ref}, which is to go" for entry in stale)]
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    removed = [removal_of(entry.ref) for entry in stale]
    diff = await _differences(client, wrong)
    return Check(False, reason=", ".join(named[:_SHOWN]) + rest, diff="\n".join(filter(None, (diff, *removed))))


async def apply_manifests(
    ctx: StepContext, name: str, manifests: str, *, namespace: str, group: str, patience: float
) -> None:
    """Makes the cluster have exactly these objects under this name."""
    client, objects = kube_client(ctx, patience=patience), objects_of(manifests, name, namespace)
    # Of a new cluster precheck has just seen that there is none: the network is not to wait for the same answer.
    known = None if ctx.has(_ABSENT) and ctx.value(_ABSENT) else await _inventory(client, name)
    ctx.cache.set(_ABSENT, False)
    inventory = known or Inventory(name, group)
    planned = replace(inventory.planned(objects, manifests, ctx.run), group=group)
    stale = [entry.ref for entry in planned.stale(objects)]
    if not objects:
        await _remove(client, name, stale)
        await client.delete(inventory_ref(name))
        return
    waves = _waves([*_namespaces(namespace, objects), *(item.document for item in objects)])
    applied = await client.apply([planned.document()], *waves, strict=group != _OWN)
    await _remove(client, name, stale)
    # What went may have taken others along: a namespace, for one.
    seen = await _seen_whole(ctx, client, objects, None if stale else seen_in(applied), patience)
    settled = planned.settled(objects, seen)
    await client.apply([settled.document()])


async def undo_manifests(ctx: StepContext, name: str, *, namespace: str, group: str, patience: float) -> None:
    """Puts back what was applied before this run; removes everything if nothing was."""
    inventory = await _inventory(kube_client(ctx, patience=patience), name)
    if inventory is not None and inventory.run == ctx.run:
        before = inventory.before or ""
        await apply_manifests(ctx, name, before, namespace=namespace, group=group, patience=patience)


async def note_group(ctx: StepContext, name: str, group: str, namespace: str, release: str, *, patience: float) -> None:
    """Notes that something which is no manifest, such as a helm release, was brought in under a name."""
    entry = Entry(Ref("helm.sh", "Release", namespace, release, "v1"))
    document = Inventory(name, group, (entry,), ctx.run).document()
    await kube_client(ctx, patience=patience).apply([document])


async def _inventory(client: KubeClient, name: str) -> Inventory | None:
    found = await client.find(inventory_ref(name))
    return None if found is None else Inventory.of_document(found)


async def _seen_whole(
    ctx: StepContext, client: KubeClient, objects: Sequence[ManifestObject], seen: list[Seen] | None, patience: float
) -> dict[Ref, Seen]:
    """How each object is now; those that were on their way out when they were applied are applied again.

    `seen`: as they were left, where that is known.
    """
    until = time.monotonic() + patience
    while True:
        if seen is None:
            seen = await see(client, [item.ref for item in objects], patience=patience)
        found = {item.ref: one for item in objects if (one := seen_as(item.ref, seen)) is not None}
        going = [item for item in objects if item.ref not in found or found[item.ref].going]
        if not going:
            return found
        if time.monotonic() > until:
            raise StepError(
                f"{going[0].ref} was being deleted when it was applied, and still is",
                host=ctx.host.name,
                hint="something holds it: look at its metadata.finalizers with kubectl",
            )
        await asyncio.sleep(1.0)
        seen = None
        await client.apply(*_waves([item.document for item in going]))


async def _remove(client: KubeClient, name: str, refs: Sequence[Ref]) -> None:
    """Removes objects that are still ours: one that other manifests took over stays."""
    if not refs:
        return
    ours = [one.ref for one in await see(client, refs) if one.owner == name]
    # What depends on others goes first: a namespace or a definition takes everything in it along.
    for late in (False, True):
        await asyncio.gather(*(client.delete(ref) for ref in ours if (ref.kind in _FIRST) is late))


def _waves(documents: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Objects in the order in which they need each other: namespaces and definitions, the rest, what runs."""
    ranks = [0 if one["kind"] in _FIRST else 2 if one["kind"] in _LAST else 1 for one in documents]
    waves = [[one for one, rank in zip(documents, ranks, strict=True) if rank == wanted] for wanted in range(3)]
    return [wave for wave in waves if wave]


def _stands(entry: Entry | None, item: ManifestObject, seen: Sequence[Seen]) -> bool:
    """True if the object was applied as it is written, and is still as it was left."""
    now = seen_as(item.ref, seen)
    if entry is None or now is None or now.going:
        return False
    return entry.digest == item.digest and entry.left == now.left


def _namespaces(namespace: str, objects: Sequence[ManifestObject]) -> list[dict[str, Any]]:
    """The default namespace, where it is no manifest's own and may not be there; it is never removed."""
    given = ("default", "kube-system", "kube-public", "kube-node-lease")
    own = any(item.ref.kind == "Namespace" and item.ref.name == namespace for item in objects)
    if namespace in given or own:
        return []
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]


async def _differences(client: KubeClient | None, objects: Sequence[ManifestObject]) -> str:
    """What applying these would change, object by object."""
    refs = [item.ref for item in objects]
    documents = [] if client is None or not refs else await client.get_many(refs)
    live = [(Ref.of(document), document) for document in documents]
    parts = []
    for item in objects:
        now = next((document for ref, document in live if item.ref.means(ref)), None)
        parts.append(changes_of(item, now))
    return "\n".join(part for part in parts if part)
