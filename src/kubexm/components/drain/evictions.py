"""Draining: pods leave a cordoned node by eviction, within their budgets, and their volumes with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kubexm.components.api import NODE, Kind, KubeClient, Ref, Selection, kube_client
from kubexm.components.drain.budgets import budget_of
from kubexm.components.drain.forecast import Forecast, forecast
from kubexm.components.drain.nodes import state_of
from kubexm.components.drain.pods import NodePod, pod_of
from kubexm.errors import EvictionBlocked, StepError
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources

__all__ = ["Drained", "read_forecast"]

_POD: Final = Kind("", "v1", "Pod")
_BUDGET: Final = Kind("policy", "v1", "PodDisruptionBudget")
_ATTACHMENT: Final = Kind("storage.k8s.io", "v1", "VolumeAttachment")
_CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim")
_AT_ONCE: Final = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node in the middle of its drain."""

    cordoned: bool
    plan: Forecast
    volumes: tuple[str, ...]
    """Volumes that are attached to it and used by no pod that stays."""

    @property
    def done(self) -> bool:
        return not (self.plan.evicted or self.plan.awaited or self.plan.blockers or self.volumes)

    def left(self) -> list[str]:
        """What is still there, a line each."""
        lines = [str(one) for one in self.plan.blockers]
        lines += [f"{pod}: has not been evicted yet" for pod in self.plan.evicted]
        lines += [f"{pod}: is being deleted" for pod in self.plan.awaited]
        return lines or [f"volume {name} is still attached" for name in self.volumes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(Step):
    """No pod that could run elsewhere is on the cordoned node, and no volume of such a pod is attached to it."""

    node: str
    """Each has a step of its own: what that writes follows from its fields, and nodes are drained side by side."""
    batch: tuple[str, ...]
    """The nodes that are drained at the same time: their pods share budgets, and none takes those of another."""
    timeout: float = 300.0
    force: tuple[str, ...] = ()
    """Pods, as `namespace/name`, that are evicted though nothing creates them again."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Reads the pods; what would be evicted and what would block that is the difference shown."""
        seen = await self._look(kube_client(ctx))
        if seen is None:
            return Check(True)
        if seen.plan.nowhere:
            ctx.warn(f"node {self.node}: {seen.plan.lines()[0]}")
            return Check(True)
        if seen.done and seen.cordoned:
            return Check(True)
        count = len(seen.plan.evicted) + len(seen.plan.blockers)
        reason = f"{count} pod{'s' if count != 1 else ''} to evict"
        if seen.plan.blockers:
            reason += f"; blocked: {'; '.join(map(str, seen.plan.blockers))}"
        return Check(False, reason=reason, diff="\n".join(seen.plan.lines()))

    async def run(self, ctx: StepContext) -> None:
        """Evicts again and again until none is left; what can never be evicted stops it before the first eviction."""
        client = kube_client(ctx, patience=60.0)
        until, pause = time.monotonic() + self.timeout, 0.0
        while (seen := await self._look(client)) is not None and not seen.done:
            if lasting := [one for one in seen.plan.blockers if one.lasting]:
                raise self._stuck([str(one) for one in lasting])
            if pause and time.monotonic() > until:
                raise self._stuck(seen.left(), late=True)
            await self._evict(client, [*seen.plan.evicted, *(one.pod for one in seen.plan.blockers)])
            pause = min(max(pause * 1.5, _FIRST_PAUSE), _LONGEST_PAUSE)
            await asyncio.sleep(pause)
        for pod in seen.plan.staying if seen is not None else ():
            ctx.warn(f"node {self.node}: {pod} stays, since no other node takes it")

    async def _evict(self, client: KubeClient, pods: Sequence[NodePod]) -> None:
        """Begins to evict as many as their budgets allow now; pods end in their own grace period."""
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(pod: NodePod) -> None:
            async with free:
                try:
                    await client.evict(pod.namespace, pod.name, uid=pod.uid)
                except EvictionBlocked:
                    return  # tried again when replacements are healthy

        await asyncio.gather(*map(one, pods))

    async def _look(self, client: KubeClient) -> _Seen | None:
        """The node now; None if it is not registered."""
        nodes = await client.list(Selection(kind=NODE))
        mine = next((state_of(one) for one in nodes if one["metadata"]["name"] == self.node), None)
        if mine is None:
            return None
        plan = (await read_forecast(client, self.batch, force=self.force, nodes=nodes)).on(self.node)
        return _Seen(mine.cordoned, plan, await _attached(client, self.node, [*plan.left, *plan.staying]))

    def _stuck(self, lines: Sequence[str], *, late: bool = False) -> StepError:
        when = f" within {self.timeout:g} s" if late else ""
        return StepError(
            f"node {self.node} cannot be drained{when}:" + "".join(f"\n  {line}" for line in lines),
            host=self.node,
            hint="scale the workload up, change its budget, or delete the pod; then run this again. "
            "The node is put back into service",
        )

    def reads(self) -> Resources:
        """Pods, budgets and volumes."""
        return resources("api:pods", "api:nodes", "api:cordon")

    def writes(self) -> Resources:
        """The pods of the node."""
        return resources(f"api:pods-of/{self.node}")

    def describe(self) -> str:
        """The state."""
        return "drained: pods evicted within their budgets"


async def read_forecast(
    client: KubeClient, batch: Sequence[str], *, force: Iterable[str] = (), nodes: Sequence[dict[str, object]] = ()
) -> Forecast:
    """What draining these nodes would do now. `nodes`: all of them, if they were read already."""
    budgets, *pods = await asyncio.gather(
        client.list(Selection(kind=_BUDGET)),
        *(client.list(Selection(kind=_POD, fields=f"spec.nodeName={name}")) for name in batch),
    )
    known = nodes or await client.list(Selection(kind=NODE))
    found = [pod_of(one) for each in pods for one in each]
    return forecast(batch, found, [*map(budget_of, budgets)], known, force=tuple(force))


async def _attached(client: KubeClient, node: str, staying: Sequence[NodePod]) -> tuple[str, ...]:
    """Volumes attached to a node, but for those of pods that stay there."""
    found = [one["spec"] for one in await client.list(Selection(kind=_ATTACHMENT)) if one["spec"]["nodeName"] == node]
    volumes = {spec["source"].get("persistentVolumeName") for spec in found} - {None}
    if not volumes:
        return ()
    claims = [
        Ref(_CLAIM.group, _CLAIM.kind, pod.namespace, volume["persistentVolumeClaim"]["claimName"], _CLAIM.version)
        for pod in staying
        for volume in pod.document["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    ]
    used = {claim["spec"].get("volumeName") for claim in await client.get_many(claims)}
    return tuple(sorted(volumes - used))
