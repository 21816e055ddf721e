"""Taking a node out of service and putting it back: the opening and the closing step of a bracket.

Both act on the node the unit is about, from a control plane. What they did is on the node itself, as an annotation, so
that a later run of the same operation can undo it, and so that nobody undoes what an administrator did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key
from kubexm.components.api import KubeClient, kube_client
from kubexm.components.drain.nodes import CORDONED, NodeState, find_state, node_ref, node_states, unavailable
from kubexm.errors import ApiConflict, ApiError, ApiNotFound, StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["BACK_IN_SERVICE", "Cordoned", "Uncordoned"]

BACK_IN_SERVICE: Final = Key[bool]("back-in-service", per_host=True, expires=True)
"""This process has uncordoned the node."""

_TRIES: Final = 20
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordoned(Step):
    """The node takes no new pods. Gated: it is cordoned only while few enough others are unavailable."""

    operation: str
    limit: int
    """How many nodes may be unavailable, this one included."""
    undrained: str = ""
    """Why its pods are not evicted, for people."""
    without_api: bool = False
    """Whether the work is done also if the API cannot be asked: it may be what brings the API back."""
    patience: float = 120.0
    """Seconds to wait for nodes that are not Ready."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the node. Whoever cordoned it: it is out of service then, and stays so if it was not kubexm."""
        try:
            node = await find_state(kube_client(ctx), ctx.subject)
        except ApiError as error:
            if not self.without_api:
                raise
            ctx.warn(f"node {ctx.subject} is not cordoned, since the API cannot be asked: {error.message}")
            return Check(True)
        if node is None:
            return Check(True)
        if node.cordoned and (not node.is_of(self.operation) or node.note == self._note(ctx)):
            return Check(True)
        if node.cordoned:
            return Check(False, reason=f"taken over from {node.note}")
        return Check(False, reason="the node is taken out of service: cordoned until its work is done")

    async def run(self, ctx: StepContext) -> None:
        """Waits until the limit allows it, then sets `unschedulable` and the annotation in one patch."""
        client = kube_client(ctx, patience=60.0)
        until = time.monotonic() + self.patience
        while True:
            nodes = await node_states(client)
            mine = nodes.get(ctx.subject)
            if mine is None or (mine.cordoned and not mine.is_of(self.operation)):
                return
            others = unavailable(nodes.values(), besides=ctx.subject)
            if mine.out or len(others) < self.limit:
                note = {"metadata": {"annotations": {CORDONED: self._note(ctx)}}, "spec": {"unschedulable": True}}
                if await _patched(client, mine, note):
                    return
                continue
            if not self._may_change(ctx, others, waited=time.monotonic() > until):
                raise self._refused(ctx.subject, others)
            await asyncio.sleep(_PAUSE)

    def _may_change(self, ctx: StepContext, others: Sequence[NodeState], *, waited: bool) -> bool:
        """True if some of these will be back without anybody's help: those of this run, or that are not Ready yet."""
        return any(one.note == self._note(ctx) or (not one.cordoned and not waited) for one in others)

    def _refused(self, name: str, others: Sequence[NodeState]) -> StepError:
        return StepError(
            f"node {name} cannot be taken out of service: execution.maxUnavailable allows {self.limit} unavailable "
            f"node{'s' if self.limit != 1 else ''}, and {', '.join(map(str, others))}",
            host=name,
            hint="bring these nodes back (`kubectl uncordon NODE`, or see why it is not Ready), or raise "
            "execution.maxUnavailable; then run this again",
        )

    def _note(self, ctx: StepContext) -> str:
        return f"{self.operation}/{ctx.run}"

    def reads(self) -> Resources:
        """The nodes."""
        return resources("api:nodes")

    def writes(self) -> Resources:
        """Who is out of service: one at a time looks and takes."""
        return resources("api:cordon")

    def describe(self) -> str:
        """The state."""
        return "out of service: cordoned" + (f", not drained ({self.undrained})" if self.undrained else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordoned(Step):
    """The node takes pods again, unless somebody other than this operation keeps it cordoned."""

    operation: str

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for the annotation."""
        node = await find_state(kube_client(ctx), ctx.subject)
        if node is None or not node.note:
            return Check(True)
        if node.is_of(self.operation):
            return Check(False, reason=f"cordoned by {node.note}")
        if node.cordoned:
            ctx.warn(f"node {node.name} stays cordoned: {node.note} did that. Run that operation again to finish it")
        return Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Takes away `unschedulable` and the annotation in one patch."""
        client = kube_client(ctx, patience=60.0)
        for _ in range(_TRIES):
            node = await find_state(client, ctx.subject)
            if node is None or not node.is_of(self.operation):
                break
            patch = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
            if await _patched(client, node, patch):
                break
        ctx.cache.set(BACK_IN_SERVICE, True, ctx.subject)

    def reads(self) -> Resources:
        """Who is out of service."""
        return resources("api:cordon")

    def writes(self) -> Resources:
        """Who is back; not what those write who wait for that."""
        return resources("api:uncordon")

    def describe(self) -> str:
        """The state."""
        return "back in service: uncordoned"


async def _patched(client: KubeClient, node: NodeState, patch: dict[str, Any]) -> bool:
    """Changes a node if it is still as it was read: kubelets and controllers change nodes all the time."""
    versioned = {**patch, "metadata": {**patch["metadata"], "resourceVersion": node.version}}
    try:
        await client.patch(node_ref(node.name), versioned)
    except (ApiConflict, ApiNotFound):
        return False
    return True
