"""Pods, budgets and nodes as the API has them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def pod(
    name: str,
    node: str = "w1",
    *,
    owner: str = "ReplicaSet/web-5d",
    namespace: str = "default",
    ready: bool = True,
    phase: str = "Running",
    **more: Any,
) -> Document:
    """A pod of a Deployment `web`, unless told otherwise. `owner` reads kind/name, empty for none."""
    kind, _, of = owner.partition("/")
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {"app": "web", "pod-template-hash": "5d", **more.pop("labels", {})},
        "annotations": more.pop("annotations", {}),
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": kind, "name": of, "controller": True}]
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, **more},
        "status": {"phase": phase, "conditions": conditions},
    }


def budget(
    name: str = "web",
    *,
    allowed: int = 1,
    healthy: int = 3,
    desired: int = 2,
    expected: int = 3,
    selector: Document | None = None,
    **spec: Any,
) -> Document:
    """A PodDisruptionBudget for the pods of `web`, unless told otherwise."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-pdb-{name}", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}} if selector is None else selector, **spec},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        },
    }


def node(
    name: str,
    *,
    ready: bool = True,
    cordoned: bool = False,
    note: str = "",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
) -> Document:
    """A node; `note` is who cordoned it, as the annotation says."""
    annotations = {"kubexm.io/cordoned": note} if note else {}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels or {}}
    spec: Document = {"taints": taints or [], **({"unschedulable": True} if cordoned else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**metadata, "annotations": annotations},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": str(ready), "message": "" if ready else "no network"}]},
    }
