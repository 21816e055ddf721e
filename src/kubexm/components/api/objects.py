"""Objects as they are in the cluster, asked for many at a time and in few bytes. Must not know what they should be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.components.api.client import KubeClient
from kubexm.components.api.documents import LABEL, Ref
from kubexm.components.api.kubectl import FIELD_MANAGER
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection

__all__ = ["INVENTORY", "Seen", "fields_owned", "see", "see_labelled", "seen_as", "seen_in"]

INVENTORY: Final = "kubexm.io/inventory"
"""Annotation of inventories, which holds what they say."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What tells whether an object is still as it was left."""

    ref: Ref
    left: str
    """Digest of its UID and of the fields that are kubexm's.

    Whoever changes the value of a field takes it over, so that the set of fields alone tells all.
    """
    going: bool = False
    """It is being deleted."""
    owner: str = ""
    """The manifests it came with."""
    inventory: str = ""


async def see(client: KubeClient, refs: Sequence[Ref], *, patience: float = 5.0) -> list[Seen]:
    """Those of these objects that are there."""
    return seen_in(await client.get_many(refs, metadata_only=True, patience=patience))


async def see_labelled(client: KubeClient, kind: Kind, label: str, *, patience: float = 5.0) -> list[Seen]:
    """The objects of a kind in kube-system that a label selector chooses."""
    selection = Selection(kind=kind, namespace="kube-system", labels=label)
    return seen_in(await client.list(selection, metadata_only=True, patience=patience))


def seen_in(documents: Iterable[Mapping[str, Any]]) -> list[Seen]:
    """What tells of objects whether they are as they were left."""
    return [_seen(document) for document in documents]


def seen_as(ref: Ref, seen: Iterable[Seen]) -> Seen | None:
    """What was seen of an object."""
    return next((one for one in seen if ref.means(one.ref)), None)


def fields_owned(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields kubexm applied and nobody took over since, of an object's managedFields."""
    for entry in entries:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource"):
            owned: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return owned
    return {}


def _seen(document: Mapping[str, Any]) -> Seen:
    metadata = document["metadata"]
    owned = fields_owned(metadata.get("managedFields") or ())
    return Seen(
        Ref.of(document),
        _left(metadata["uid"], owned),
        going=bool(metadata.get("deletionTimestamp")),
        owner=(metadata.get("labels") or {}).get(LABEL, ""),
        inventory=(metadata.get("annotations") or {}).get(INVENTORY, ""),
    )


def _left(uid: str, owned: Mapping[str, Any]) -> str:
    text = json.dumps([uid, owned], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
