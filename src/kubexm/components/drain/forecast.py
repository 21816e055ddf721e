"""What draining some nodes at the same time would do, and what would stop it. Pure: documents in, answers out.

A dry-run eviction judges each pod alone; here the pods of a whole batch share their budgets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubexm.components.api import is_ready
from kubexm.components.drain.budgets import Budget, grouped
from kubexm.components.drain.pods import NodePod, PodKind
from kubexm.components.drain.selectors import accepts

__all__ = ["Blocker", "Forecast", "Rounds", "forecast"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pod that cannot be evicted now, and why."""

    pod: NodePod
    reason: str
    budgets: tuple[Budget, ...] = ()
    lasting: bool = False
    """True if waiting does not help: somebody has to change something."""

    def __str__(self) -> str:
        return f"{self.pod}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Rounds:
    """A budget that lets fewer pods go at once than the batch has: the rest waits for replacements."""

    budget: Budget
    pods: tuple[NodePod, ...]

    def __str__(self) -> str:
        return f"{self.budget}: {len(self.pods)} pods, {self.budget.allowed} at a time"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a drain of these nodes would do."""

    nodes: tuple[str, ...]
    evicted: tuple[NodePod, ...] = ()
    awaited: tuple[NodePod, ...] = ()
    """Pods that are being deleted already."""
    left: tuple[NodePod, ...] = ()
    """Pods that a drain never touches: of DaemonSets, static, finished, or tolerating cordoned nodes."""
    staying: tuple[NodePod, ...] = ()
    """Pods that no other node takes: evicted, they would run nowhere until their node is back."""
    blockers: tuple[Blocker, ...] = ()
    rounds: tuple[Rounds, ...] = ()
    nowhere: bool = False
    """True if there is no other node that is Ready and schedulable: nothing is drained."""

    def on(self, node: str) -> Forecast:
        """The part of it that concerns one of the nodes."""
        return Forecast(
            nodes=(node,),
            evicted=_on(node, self.evicted),
            awaited=_on(node, self.awaited),
            left=_on(node, self.left),
            staying=_on(node, self.staying),
            blockers=tuple(one for one in self.blockers if one.pod.node == node),
            rounds=tuple(one for one in self.rounds if _on(node, one.pods)),
            nowhere=self.nowhere,
        )

    def lines(self) -> list[str]:
        """What people should know, a line each: blockers first."""
        if self.nowhere:
            return ["not drained: no other node is Ready and schedulable, so the pods have nowhere to go"]
        lines = [f"blocked: {one}" for one in self.blockers]
        lines += [f"in several rounds: {one}" for one in self.rounds]
        lines += [f"stays: {pod}: no other node takes it" for pod in self.staying]
        lines += [
            f"evicts {pod}" + (f", which loses emptyDir {', '.join(pod.empty_dirs)}" if pod.empty_dirs else "")
            for pod in self.evicted
        ]
        return lines


def forecast(
    batch: Collection[str],
    pods: Iterable[NodePod],
    budgets: Sequence[Budget],
    nodes: Iterable[Document],
    *,
    force: Collection[str] = (),
) -> Forecast:
    """What draining a batch of nodes would do.

    `pods` and `nodes` may be those of the whole cluster. `force`: pods, as `namespace/name`, that are evicted though
    nothing creates them again.
    """
    mine = sorted((pod for pod in pods if pod.node in batch), key=lambda pod: (pod.node, pod.place))
    elsewhere = [node for node in nodes if node["metadata"]["name"] not in batch and _takes_pods(node)]
    left = tuple(pod for pod in mine if pod.kind in _NEVER)
    awaited = tuple(pod for pod in mine if pod.kind is PodKind.TERMINATING)
    movable = [pod for pod in mine if pod.kind in (PodKind.EVICTABLE, PodKind.UNMANAGED)]
    if not elsewhere:
        return Forecast(nodes=tuple(batch), awaited=awaited, left=left, staying=tuple(movable), nowhere=bool(movable))
    lone = [pod for pod in movable if pod.kind is PodKind.UNMANAGED and pod.place not in force]
    rest = [pod for pod in movable if pod not in lone]
    staying = [pod for pod in rest if not any(accepts(node, pod.document) for node in elsewhere)]
    going = [pod for pod in rest if pod not in staying]
    blockers = [Blocker(pod, f"{pod.kind.value}: delete it, or give it a controller", lasting=True) for pod in lone]
    rounds: list[Rounds] = []
    for group, members in grouped(going, budgets).items():
        blocked, several = _judged(group, members)
        blockers += blocked
        rounds += several
    stuck = {one.pod.uid for one in blockers}
    return Forecast(
        nodes=tuple(batch),
        evicted=tuple(pod for pod in going if pod.uid not in stuck),
        awaited=awaited,
        left=left,
        staying=tuple(staying),
        blockers=tuple(blockers),
        rounds=tuple(rounds),
    )


_NEVER = frozenset({PodKind.FINISHED, PodKind.MIRROR, PodKind.DAEMON_SET, PodKind.TOLERATES})


def _judged(budgets: tuple[Budget, ...], pods: Sequence[NodePod]) -> tuple[list[Blocker], list[Rounds]]:
    """What the API would say of evicting these pods, which have the same budgets."""
    counted = [pod for pod in pods if not pod.pending]  # a pod that never started disrupts nothing
    if len(budgets) > 1:
        names = " and ".join(map(str, budgets))
        reason = f"{names} are both for it, and the API evicts no pod that has more than one"
        return [Blocker(pod, reason, budgets, lasting=True) for pod in counted], []
    if not budgets or not counted:
        return [], []
    budget = budgets[0]
    disrupted = [pod for pod in counted if pod.ready or not budget.lets_unhealthy_go()]
    if disrupted and not budget.allowed:
        reason = f"{budget} allows no eviction: {_state(budget)}"
        return [Blocker(pod, reason, budgets, lasting=budget.lasting) for pod in disrupted], []
    return [], [Rounds(budget, tuple(disrupted))] if len(disrupted) > budget.allowed else []


def _state(budget: Budget) -> str:
    if budget.lasting:
        return f"it wants {budget.desired} of {budget.expected} pods healthy at all times"
    return f"{budget.healthy} of {budget.expected} pods are healthy, and it wants at least {budget.desired}"


def _takes_pods(node: Document) -> bool:
    return is_ready(node) and not (node.get("spec") or {}).get("unschedulable")


def _on(node: str, pods: Iterable[NodePod]) -> tuple[NodePod, ...]:
    return tuple(pod for pod in pods if pod.node == node)
