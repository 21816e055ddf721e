"""Nodes as the API has them, and as they should be: asked for all at once. Must not know who asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubexm.components.api.client import KubeClient
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection
from kubexm.errors import ApiUnavailable

__all__ = ["NODE", "NODE_NOTE", "FoundNode", "NodeSetting", "find_nodes", "node_of", "taint_text"]

NODE_NOTE: Final = "kubexm.io/node-settings"
"""Annotation that says which labels and taints of a node are kubexm's, so that those that left the file go."""

NODE: Final = Kind("", "v1", "Node")


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """What the file says of one node."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[str, ...] = ()
    """As `key=value:effect`, or `key:effect`."""

    @property
    def note(self) -> str:
        """What is noted once it is so."""
        return json.dumps({"labels": [key for key, _ in self.labels], "taints": list(self.taints)}, sort_keys=True)


@dataclass(frozen=True, slots=True)
class FoundNode:
    """What the API says of one node."""

    name: str
    uid: str = ""
    ready: bool = False
    message: str = ""
    """Why it is not ready."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: frozenset[str] = frozenset()
    note: str = ""

    def faults(self, wanted: NodeSetting) -> list[str]:
        """What is not as it should be, in a few words each."""
        wrong = [f"label {key}={value}" for key, value in wanted.labels if self.labels.get(key) != value]
        wrong += [f"taint {taint}" for taint in wanted.taints if taint not in self.taints]
        wrong += [f"label {key} is to go" for key in self.noted("labels") - {key for key, _ in wanted.labels}]
        wrong += [f"taint {taint} is to go" for taint in self.stale_taints(wanted)]
        return wrong or (["what is kubexm's is not noted"] if self.note != wanted.note else [])

    def stale_taints(self, wanted: NodeSetting) -> list[str]:
        """Taints that kubexm set and the file does not name any more."""
        return sorted((self.noted("taints") & self.taints) - set(wanted.taints))

    def noted(self, what: str) -> set[str]:
        """The labels or taints that are kubexm's."""
        try:
            return set(json.loads(self.note)[what])
        except (KeyError, TypeError, ValueError):
            return set()


async def find_nodes(client: KubeClient, *, patience: float = 5.0) -> dict[str, FoundNode] | None:
    """Every node by its name; None if the API does not answer."""
    try:
        found = await client.list(Selection(kind=NODE), patience=patience)
    except ApiUnavailable:
        return None
    return {node.name: node for node in map(node_of, found)}


def node_of(document: Mapping[str, Any]) -> FoundNode:
    """What an object of the API says of a node."""
    metadata, status = document["metadata"], document.get("status") or {}
    ready: Mapping[str, Any] = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
    return FoundNode(
        name=metadata["name"],
        uid=metadata["uid"],
        ready=ready.get("status") == "True",
        message=ready.get("message") or "",
        labels=metadata.get("labels") or {},
        taints=frozenset(map(taint_text, (document.get("spec") or {}).get("taints") or ())),
        note=(metadata.get("annotations") or {}).get(NODE_NOTE, ""),
    )


def taint_text(taint: Mapping[str, str]) -> str:
    """A taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
