"""Selectors, taints and tolerations as Kubernetes reads them. Pure: documents in, answers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["accepts", "matches_labels", "tolerates", "tolerates_cordon"]

Document = Mapping[str, Any]
_HARD: Final = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def matches_labels(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector chooses an object with these labels. None chooses nothing, an empty one everything."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(one, labels) for one in selector.get("matchExpressions") or ()
    )


def tolerates(pod: Document, taint: Document) -> bool:
    """Whether a pod may be scheduled in spite of a taint."""
    return any(_tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())


def tolerates_cordon(pod: Document) -> bool:
    """Whether a pod may be scheduled on a cordoned node: evicted, it would come back at once."""
    return tolerates(pod, _UNSCHEDULABLE)


def accepts(node: Document, pod: Document) -> bool:
    """Whether the labels and taints of a node let the scheduler place a pod there. Resources are not considered."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    if any(taint["effect"] in _HARD and not tolerates(pod, taint) for taint in taints):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term_holds(term, node, labels) for term in required.get("nodeSelectorTerms") or ())


def _term_holds(term: Document, node: Document, labels: Mapping[str, str]) -> bool:
    """A term without any condition chooses no node."""
    by_label: Sequence[Document] = term.get("matchExpressions") or ()
    by_field: Sequence[Document] = term.get("matchFields") or ()
    fields = {"metadata.name": node["metadata"]["name"]}
    return bool(by_label or by_field) and (
        all(_holds(one, labels) for one in by_label) and all(_holds(one, fields) for one in by_field)
    )


def _holds(expression: Document, values: Mapping[str, str]) -> bool:
    key, wanted = expression["key"], expression.get("values") or ()
    value = values.get(key)
    match expression["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt" | "Lt" as operator:
            found, bound = _number(value), _number(wanted[0] if wanted else None)
            return found is not None and bound is not None and (found > bound if operator == "Gt" else found < bound)
    return False


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")
