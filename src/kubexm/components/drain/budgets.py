"""PodDisruptionBudgets: which pods they are for, and what they allow. Pure, and by the rules of the eviction API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubexm.components.drain.pods import NodePod
from kubexm.components.drain.selectors import matches_labels

__all__ = ["Budget", "budget_of", "budgets_for", "grouped"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget and its last known state."""

    namespace: str
    name: str
    selector: Document | None = field(compare=False)
    allowed: int
    """Evictions it allows now."""
    healthy: int
    desired: int
    expected: int
    always_allows_unhealthy: bool

    @property
    def place(self) -> str:
        """As `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def lasting(self) -> bool:
        """True if it allows no eviction even while all of its pods are healthy: only an edit helps."""
        return self.desired >= self.expected > 0

    def lets_unhealthy_go(self) -> bool:
        """Whether a pod that is not ready may be evicted without counting as a disruption."""
        return self.always_allows_unhealthy or (self.healthy >= self.desired > 0)

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.place}"


def budget_of(document: Document) -> Budget:
    """A budget of the API."""
    metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
    return Budget(
        namespace=metadata["namespace"],
        name=metadata["name"],
        selector=spec.get("selector"),
        allowed=int(status.get("disruptionsAllowed") or 0),
        healthy=int(status.get("currentHealthy") or 0),
        desired=int(status.get("desiredHealthy") or 0),
        expected=int(status.get("expectedPods") or 0),
        always_allows_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def budgets_for(pod: NodePod, budgets: Iterable[Budget]) -> tuple[Budget, ...]:
    """The budgets that are for a pod."""
    return tuple(one for one in budgets if one.namespace == pod.namespace and matches_labels(one.selector, pod.labels))


def grouped(pods: Iterable[NodePod], budgets: Sequence[Budget]) -> dict[tuple[Budget, ...], list[NodePod]]:
    """The pods by the budgets that are for them; those without a budget under the empty tuple."""
    groups: dict[tuple[Budget, ...], list[NodePod]] = {}
    for pod in pods:
        groups.setdefault(budgets_for(pod, budgets), []).append(pod)
    return groups
