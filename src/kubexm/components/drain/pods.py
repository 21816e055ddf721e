"""The pods of a node, sorted by what a drain does with them. Pure: documents in, answers out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kubexm.components.api import is_ready
from kubexm.components.drain.selectors import tolerates_cordon

__all__ = ["NodePod", "PodKind", "pod_of"]

Document = Mapping[str, Any]


class PodKind(Enum):
    """What a pod is to a drain. Only `EVICTABLE` pods are evicted."""

    FINISHED = "it has finished"
    TERMINATING = "it is being deleted already"
    MIRROR = "a static pod: its kubelet runs it"
    DAEMON_SET = "a DaemonSet runs it on every node"
    TOLERATES = "it tolerates cordoned nodes, so it would come back at once"
    UNMANAGED = "nothing would create it again"
    EVICTABLE = "its controller creates it again elsewhere"


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod, as far as a drain needs to know it."""

    namespace: str
    name: str
    uid: str
    node: str
    owner: str
    """What creates it again, as `Deployment web`; empty if nothing does."""
    kind: PodKind
    ready: bool
    pending: bool
    empty_dirs: tuple[str, ...]
    """Volumes whose data is lost with the pod."""
    document: Document = field(repr=False, compare=False, default_factory=dict)

    @property
    def place(self) -> str:
        """As `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        found: Mapping[str, str] = self.document["metadata"].get("labels") or {}
        return found

    def __str__(self) -> str:
        return f"pod {self.place}" + (f" ({self.owner})" if self.owner else "")


def pod_of(document: Document) -> NodePod:
    """A pod of the API."""
    metadata, spec = document["metadata"], document["spec"]
    controller = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    return NodePod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName") or "",
        owner="" if controller is None else _owner(controller, metadata.get("labels") or {}),
        kind=_kind(document, controller),
        ready=is_ready(document),
        pending=_phase(document) == "Pending",
        empty_dirs=tuple(volume["name"] for volume in spec.get("volumes") or () if "emptyDir" in volume),
        document=document,
    )


def _kind(pod: Document, controller: Document | None) -> PodKind:
    metadata = pod["metadata"]
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return PodKind.MIRROR
    if _phase(pod) in ("Succeeded", "Failed"):
        return PodKind.FINISHED
    if controller is not None and controller["kind"] == "DaemonSet":
        return PodKind.DAEMON_SET
    if metadata.get("deletionTimestamp"):
        return PodKind.TERMINATING
    if controller is None:
        return PodKind.UNMANAGED
    return PodKind.TOLERATES if tolerates_cordon(pod) else PodKind.EVICTABLE


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _owner(controller: Document, labels: Mapping[str, str]) -> str:
    """Of a ReplicaSet that a Deployment made, the Deployment: that is what people know."""
    kind, name = controller["kind"], controller["name"]
    suffix = f"-{labels.get('pod-template-hash', '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return f"Deployment {name.removesuffix(suffix)}"
    return f"{kind} {name}"
