"""Nodes as the API has them, and as they should be: asked for all at once, in few bytes. Must not know who asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubexm.components.api.kubectl import Kubectl, is_transient

__all__ = ["NODE_NOTE", "FoundNode", "NodeSetting", "find_nodes"]

NODE_NOTE: Final = "kubexm.io/node-settings"
"""Annotation that says which labels and taints of a node are kubexm's, so that those that left the file go."""

_READY: Final = '{.status.conditions[?(@.type=="Ready")]'
_ROWS: Final = (
    "jsonpath={range .items[*]}"
    + '{"\\t"}'.join(
        (
            "{.metadata.name}",
            "{.metadata.uid}",
            f"{_READY}.status}}",
            "{.metadata.labels}",
            "{.spec.taints}",
            "{.metadata.annotations." + NODE_NOTE.replace(".", r"\.") + "}",
            f"{_READY}.message}}",
        )
    )
    + '{"\\n"}{end}'
)


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


async def find_nodes(kubectl: Kubectl, *, patience: float = 5.0) -> dict[str, FoundNode] | None:
    """Every node by its name; None if the API does not answer."""
    result = await kubectl.read("get", "nodes", "-o", _ROWS, patience=patience, display="ask for the nodes")
    if not result.ok:
        if result.exit_code == 127 or "admin.conf" in result.error_text or is_transient(result):
            return None
        raise kubectl.error(result)
    return {node.name: node for node in map(_node, result.text.splitlines()) if node.name}


def _node(row: str) -> FoundNode:
    name, uid, ready, labels, taints, note, message = row.split("\t", 6)
    return FoundNode(
        name=name,
        uid=uid,
        ready=ready == "True",
        message=message,
        labels=json.loads(labels or "{}"),
        taints=frozenset(_taint(taint) for taint in json.loads(taints or "[]")),
        note=note,
    )


def _taint(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
