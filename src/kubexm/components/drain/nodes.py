"""Nodes as those see them who take them out of service: Ready, cordoned, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubexm.components.api import NODE, KubeClient, Ref, Selection, is_ready

__all__ = ["CORDONED", "NodeState", "find_state", "node_ref", "node_states", "state_of", "unavailable"]

CORDONED: Final = "kubexm.io/cordoned"
"""Annotation of a node that kubexm cordoned: `OPERATION/RUN`."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What the API says of a node."""

    name: str
    ready: bool
    cordoned: bool
    note: str
    """Which operation and run of kubexm cordoned it; empty if kubexm did not."""
    version: str

    @property
    def out(self) -> bool:
        """True if it counts as unavailable."""
        return self.cordoned or not self.ready

    def is_of(self, operation: str) -> bool:
        """True if this operation cordoned it, in whichever run."""
        return self.note.partition("/")[0] == operation

    def __str__(self) -> str:
        if not self.cordoned:
            return f"{self.name} is not Ready"
        return f"{self.name} is cordoned by {f'kubexm {self.note}' if self.note else 'somebody else'}"


def node_ref(name: str) -> Ref:
    """A node, for the API."""
    return Ref(NODE.group, NODE.kind, "", name, NODE.version)


def state_of(document: Mapping[str, Any]) -> NodeState:
    """A node of the API."""
    metadata = document["metadata"]
    return NodeState(
        name=metadata["name"],
        ready=is_ready(document),
        cordoned=bool((document.get("spec") or {}).get("unschedulable")),
        note=(metadata.get("annotations") or {}).get(CORDONED, ""),
        version=metadata["resourceVersion"],
    )


async def find_state(client: KubeClient, name: str) -> NodeState | None:
    """One node; None if it is not registered."""
    found = await client.find(node_ref(name))
    return None if found is None else state_of(found)


async def node_states(client: KubeClient) -> dict[str, NodeState]:
    """Every node by its name."""
    return {one.name: one for one in map(state_of, await client.list(Selection(kind=NODE)))}


def unavailable(nodes: Iterable[NodeState], *, besides: str) -> list[NodeState]:
    """The nodes that are not Ready or cordoned, whoever did it, apart from one."""
    return [node for node in nodes if node.out and node.name != besides]
