"""Workloads that run as they were last told to: every pod of the newest kind, and ready."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key, Scope
from kubexm.components.api.client import KubeClient, kube_client
from kubexm.components.api.documents import ManifestObject, Ref
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection
from kubexm.components.api.trouble import pod_troubles
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, OUTCOME, Check, Resources, Step, resources

__all__ = ["RolledOut", "Workload", "rollout_fault", "workloads_of"]

_GROUPS: Final = {"Deployment": "apps", "DaemonSet": "apps", "StatefulSet": "apps", "Job": "batch"}
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, DaemonSet, StatefulSet or Job."""

    kind: str
    namespace: str
    name: str

    @property
    def ref(self) -> Ref:
        """Which object it is."""
        return Ref(_GROUPS[self.kind], self.kind, self.namespace, self.name, "v1")

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def workloads_of(objects: Sequence[ManifestObject]) -> tuple[Workload, ...]:
    """Those of these objects that can be waited for."""
    return tuple(
        Workload(item.ref.kind, item.ref.namespace, item.ref.name)
        for item in objects
        if _GROUPS.get(item.ref.kind) == item.ref.group
    )


_AWAITED: Final = Key[tuple[Workload, ...]]("workloads-awaited", scope=Scope.STEP)
"""Those that precheck did not find rolled out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledOut(Step):
    """These workloads are rolled out: all their pods are new and ready, all their jobs are done."""

    name: str
    """What they belong to: the manifests of this name."""
    workloads: tuple[Workload, ...]
    patience: float = 300.0

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for all of them at once."""
        try:
            found = await kube_client(ctx).get_many([one.ref for one in self.workloads])
        except ApiUnavailable:
            ctx.cache.set(_AWAITED, self.workloads)
            return Check(False, reason="the API does not answer yet")
        faults = self._faults(found)
        ctx.cache.set(_AWAITED, tuple(faults))
        return Check(False, reason="; ".join(_told(faults)[:_SHOWN])) if faults else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Watches all of them until they are."""
        client, awaited = kube_client(ctx), ctx.value(_AWAITED) if ctx.has(_AWAITED) else self.workloads
        if all(await asyncio.gather(*(self._watched(client, one) for one in awaited))):
            return  # the recheck looks at all of them
        faults = self._faults(await client.get_many([one.ref for one in self.workloads]))
        if faults:
            spaces = list(dict.fromkeys(one.namespace for one in faults))
            lines = [line for space in spaces for line in await pod_troubles(client, space)]
            raise StepError(
                f"not rolled out after {self.patience:g} s: " + "\n  ".join((*_told(faults)[:_SHOWN], *lines)),
                host=ctx.host.name,
                hint=f"`kubectl -n {spaces[0]} get pods,events` shows more; fix the cause, then run this again",
            )

    async def _watched(self, client: KubeClient, one: Workload) -> bool:
        """True once it is rolled out, False if that takes too long."""
        chosen = Selection(kind=Kind.of(one.ref), namespace=one.namespace, fields=f"metadata.name={one.name}")

        def rolled_out(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> bool:
            document = found.get((one.namespace, one.name))
            return document is not None and not rollout_fault(document)

        try:
            return await client.until(chosen, rolled_out, within=self.patience, patience=self.patience)
        except ApiUnavailable:
            return False

    def _faults(self, found: Sequence[Mapping[str, Any]]) -> dict[Workload, str]:
        known = [(Ref.of(document), document) for document in found]
        faults = {}
        for one in self.workloads:
            document = next((document for ref, document in known if one.ref.means(ref)), None)
            fault = rollout_fault(document) if document is not None else "it is not there"
            if fault:
                faults[one] = fault
        return faults

    def reads(self) -> Resources:
        """The manifests, and what comes of them by itself, or of what is done to hosts."""
        return resources(f"api:{self.name}", OUTCOME)

    def writes(self) -> Resources:
        """Nothing: it waits."""
        return NOTHING

    def describe(self) -> str:
        """Whose workloads."""
        return f"workloads of {self.name} rolled out"


def _told(faults: Mapping[Workload, str]) -> list[str]:
    return [f"{one}: {fault}" for one, fault in faults.items()]


def rollout_fault(document: Mapping[str, Any]) -> str:
    """What is not rolled out yet, in a few words; nothing if all is."""
    spec, status = document.get("spec", {}), document.get("status", {})
    if document["kind"] == "Job":
        conditions = status.get("conditions") or ()
        done = any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)
        return "" if done else "it is not complete"
    if status.get("observedGeneration", 0) < document["metadata"].get("generation", 0):
        return "nobody has looked at its last change yet"
    if document["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        new, ready = status.get("updatedNumberScheduled", 0), status.get("numberReady", 0)
    else:
        wanted = spec.get("replicas", 1)
        new, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
        if document["kind"] == "Deployment" and status.get("replicas", 0) > new:
            return f"{status['replicas'] - new} pods of an older kind are still there"
    if new < wanted:
        return f"{new} of {wanted} pods are of the newest kind"
    return f"{ready} of {wanted} pods are ready" if ready < wanted else ""
