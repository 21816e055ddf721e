"""The objects a cluster has before anything else can be done with it: who its administrators are, how nodes join.

Applied with super-admin.conf, the one identity that needs no such object, in one call, since all else waits for them.
Knows no mode: whoever brings up the API server calls `open_api`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key, Scope
from kubexm.components.api import KubeClient, Ref, kube_client, through_api
from kubexm.components.control_plane import admin_binding, joining_objects
from kubexm.components.milestones import API_READY, API_SERVING, JOINING_OPEN
from kubexm.components.topology import control_planes, joined_control_planes
from kubexm.errors import ApiForbidden, ApiUnavailable
from kubexm.plan import Retry
from kubexm.runtime import StepContext, TaskContext
from kubexm.step import Check, Reached, Resources, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["FoundingObjectsApplied", "open_api"]

_SUPER_ADMIN: Final = "/etc/kubernetes/super-admin.conf"
_COMPARED: Final = ("roleRef", "subjects", "rules")
_APPLIED: Final = Key[list[dict[str, Any]]]("founding-objects", scope=Scope.STEP)
"""The objects as the apply left them, for the look that follows it: everything else waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundingObjectsApplied(Step):
    """Administrators may do everything, and nodes with a token may join and renew their certificates."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for them as an administrator, in one read."""
        wanted = _objects()
        found = ctx.value(_APPLIED) if ctx.has(_APPLIED) else []
        ctx.cache.set(_APPLIED, [])
        if not found:
            try:
                found = await kube_client(ctx).get_many([Ref.of(item) for item in wanted])
            except ApiForbidden:
                return Check(False, reason="administrators may do nothing yet")
            except ApiUnavailable:
                return Check(False, reason="the API does not answer yet")
        live = {_key(item): item for item in found}
        wrong = [_key(item)[1] for item in wanted if not _stands(item, live.get(_key(item)))]
        return Check(False, reason=f"{', '.join(wrong)} is not there or differs") if wrong else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Applies them all at once."""
        # admin.conf gets its rights from these objects.
        client = KubeClient([ctx.host.connector], kubeconfig=_SUPER_ADMIN)
        ctx.cache.set(_APPLIED, await client.apply(_objects()))

    def reads(self) -> Resources:
        """These objects."""
        return resources("api:founding")

    def writes(self) -> Resources:
        """These objects."""
        return resources("api:founding")

    def describe(self) -> str:
        """The state."""
        return "administrators and joining nodes have their rights"


def open_api(g: FragmentBuilder, ctx: TaskContext) -> NodeHandle:
    """Adds `rights`, which provides API_READY and JOINING_OPEN.

    A new cluster is opened as soon as its first API server serves. One that is there has API servers that are rolled
    where they change: what goes through the API follows the last of them.
    """
    known = joined_control_planes(ctx)
    serving = g.add("serving", Reached(what="API server"), on=known or control_planes(ctx)[:1], needs=API_SERVING)
    return g.add(
        "rights",
        FoundingObjectsApplied(),
        after=[serving],
        provides=(API_READY, JOINING_OPEN),
        retry=Retry(times=4, delay=0.5),
        **through_api(ctx),
    )


def _objects() -> list[dict[str, Any]]:
    return [admin_binding(), *joining_objects()]


def _key(document: Mapping[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _stands(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    return live is not None and all(live.get(field) == wanted.get(field) for field in _COMPARED)
