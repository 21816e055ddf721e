"""What was applied under a name: a Secret in the cluster that says which objects, and how they were left.

With it a second run tells by one question whether anything changed, objects that left the manifests are removed, and
nobody else's ever are. It is a Secret because the manifests it keeps for undoing may hold some.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kubexm.components.api.client import KubeClient
from kubexm.components.api.documents import ManifestObject, Ref
from kubexm.components.api.objects import INVENTORY, Seen, see_labelled
from kubexm.components.api.resources import Kind
from kubexm.errors import ApiUnavailable

__all__ = ["INVENTORY_LABEL", "NAMESPACE", "Entry", "Inventory", "find_inventories", "inventory_ref"]

NAMESPACE: Final = "kube-system"
INVENTORY_LABEL: Final = "kubexm.io/inventory"
"""On each inventory: what its manifests belong to, such as `component` or `addon`."""
_PREFIX: Final = "kubexm-applied-"
_MOST: Final = 400_000
"""Manifests that are larger, compressed, are not kept: a Secret has room for a million bytes."""


def inventory_ref(name: str) -> Ref:
    """Where the inventory of these manifests is."""
    return Ref("", "Secret", NAMESPACE, f"{_PREFIX}{name}", "v1")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object that was applied."""

    ref: Ref
    digest: str = ""
    """Of the object as it was applied; empty while nobody knows how that ended."""
    left: str = ""
    """How the object was left (`Seen.left`)."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All objects applied under a name."""

    name: str
    group: str
    entries: tuple[Entry, ...] = ()
    run: str = ""
    """The run that applied them last."""
    manifests: str = ""
    """As they were applied, if they are not too large."""
    before: str | None = None
    """The manifests this run found, for undoing it; None if there were none, or they are not known."""

    def entry(self, ref: Ref) -> Entry | None:
        """Of this object, whatever its version."""
        return next((entry for entry in self.entries if ref.means(entry.ref)), None)

    def stale(self, objects: Sequence[ManifestObject]) -> tuple[Entry, ...]:
        """The objects that were applied once and are not among these."""
        wanted = {found.ref.identity for item in objects if (found := self.entry(item.ref)) is not None}
        return tuple(entry for entry in self.entries if entry.ref.identity not in wanted)

    def planned(self, objects: Sequence[ManifestObject], manifests: str, run: str) -> Inventory:
        """What is written before anything is applied: these and all earlier objects, so that none is ever forgotten."""
        stale = self.stale(objects)
        kept = (entry if entry in stale else replace(entry, left="") for entry in self.entries)
        new = (Entry(item.ref) for item in objects if self.entry(item.ref) is None)
        before = self.before if self.run == run else (self.manifests if self.entries else None)
        return replace(self, entries=(*kept, *new), manifests=manifests, run=run, before=before)

    def settled(self, objects: Sequence[ManifestObject], seen: Mapping[Ref, Seen]) -> Inventory:
        """What is written once all is applied: these objects, as they were left."""
        entries = (Entry(seen[item.ref].ref, item.digest, seen[item.ref].left) for item in objects)
        return replace(self, entries=tuple(entries))

    def document(self) -> dict[str, Any]:
        """The Secret."""
        document = inventory_ref(self.name).stub()
        document["metadata"]["labels"] = {INVENTORY_LABEL: self.group}
        document["metadata"]["annotations"] = {INVENTORY: self.text()}
        document["type"] = INVENTORY
        document["data"] = {}
        for key, text in (("manifests", self.manifests), ("before", self.before)):
            packed = gzip.compress((text or "").encode(), mtime=0)
            if text is not None and len(packed) <= _MOST:
                document["data"][key] = base64.b64encode(packed).decode()
        return document

    def text(self) -> str:
        """What is asked for on each run, in one line."""
        entries = [
            [entry.ref.api_version, entry.ref.kind, entry.ref.namespace, entry.ref.name, entry.digest, entry.left]
            for entry in self.entries
        ]
        known = {"version": 1, "group": self.group, "run": self.run, "objects": entries}
        return json.dumps(known, separators=(",", ":"))

    @classmethod
    def of(cls, seen: Seen) -> Inventory:
        """What an inventory says, without the manifests it keeps."""
        return cls._read(seen.ref.name, seen.inventory)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Inventory:
        """What an inventory says, with the manifests it keeps."""
        metadata, data = document["metadata"], document.get("data") or {}
        texts = {key: gzip.decompress(base64.b64decode(value)).decode() for key, value in data.items()}
        known = cls._read(metadata["name"], (metadata.get("annotations") or {}).get(INVENTORY, ""))
        return replace(known, manifests=texts.get("manifests", ""), before=texts.get("before"))

    @classmethod
    def _read(cls, secret: str, text: str) -> Inventory:
        """From its text; one that cannot be read knows nothing."""
        name = secret.removeprefix(_PREFIX)
        try:
            known = json.loads(text)
            entries = tuple(_entry(*item) for item in known["objects"])
            return cls(name, known["group"], entries, known["run"])
        except (KeyError, TypeError, ValueError):
            return cls(name, "")


async def find_inventories(
    client: KubeClient, groups: Sequence[str], *, patience: float = 5.0
) -> list[Inventory] | None:
    """Every inventory of these groups; None if the API does not answer."""
    label = f"{INVENTORY_LABEL} in ({','.join(groups)})"
    try:
        found = await see_labelled(client, Kind("", "v1", "Secret"), label, patience=patience)
        return [Inventory.of(one) for one in found]
    except ApiUnavailable:
        return None


def _entry(api_version: str, kind: str, namespace: str, name: str, digest: str, left: str) -> Entry:
    group, _, version = api_version.rpartition("/")
    return Entry(Ref(group, kind, namespace, name, version), digest, left)
