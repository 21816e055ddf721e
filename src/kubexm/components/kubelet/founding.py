"""The objects a cluster has before anything else can be done with it: who its administrators are, how nodes join.

Applied with super-admin.conf, the one identity that needs no such object, in one call, since all else waits for them.
Knows no mode: whoever brings up the API server calls `open_api`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.cache import Key, Scope
from kubexm.components.api import ADMIN_CONF, Kubectl, is_transient
from kubexm.components.api.kubectl import CACHE
from kubexm.components.control_plane import admin_binding, joining_objects
from kubexm.components.milestones import API_READY, API_SERVING, JOINING_OPEN
from kubexm.connector import Host
from kubexm.connector.base import shell
from kubexm.plan import Retry
from kubexm.runtime import StepContext
from kubexm.step import Check, Resources, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["FoundingObjectsApplied", "open_api"]

_SUPER_ADMIN: Final = "/etc/kubernetes/super-admin.conf"
_COMPARED: Final = ("roleRef", "subjects", "rules")
_APPLIED: Final = Key[str]("founding-objects", scope=Scope.STEP)
"""The objects as the apply left them, for the look that follows it: everything else waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundingObjectsApplied(Step):
    """Administrators may do everything, and nodes with a token may join and renew their certificates."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Asks for them as an administrator, in one read."""
        wanted = _objects()
        text = ctx.value(_APPLIED) if ctx.has(_APPLIED) else ""
        ctx.cache.set(_APPLIED, "")
        if not text:
            result = await Kubectl(ctx.host).read(
                "get", "--ignore-not-found", "-o", "json", "-f", "-", stdin=_list(wanted), display="ask who may join"
            )
            if not result.ok:
                reason = "the API does not answer yet" if is_transient(result) else "administrators may do nothing yet"
                return Check(False, reason=reason)
            text = result.text
        data = json.loads(text) if text.strip() else {}
        live = {_key(item): item for item in data.get("items", [data] if data else [])}
        wrong = [_key(item)[1] for item in wanted if not _stands(item, live.get(_key(item)))]
        return Check(False, reason=f"{', '.join(wrong)} is not there or differs") if wrong else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Applies them all at once."""
        # Without a look at the schema: on a server that has just started, working that out takes longer than all this.
        how = ("--server-side", "--force-conflicts", "--field-manager=kubexm", "--validate=false")
        words = ("apply", *how, "-o", "json", "-f", "-")
        result = await ctx.host.command.run(
            shell("kubectl", "--kubeconfig", _SUPER_ADMIN, "--cache-dir", CACHE, "--request-timeout", "20s", *words),
            stdin=_list(_objects()),
            long=True,
            display="apply who may administer the cluster and who may join it",
            hint=f"super-admin.conf must be one of this cluster; {ADMIN_CONF} gets its rights from these objects",
        )
        ctx.cache.set(_APPLIED, result.text)

    def reads(self) -> Resources:
        """These objects."""
        return resources("api:founding")

    def writes(self) -> Resources:
        """These objects."""
        return resources("api:founding")

    def describe(self) -> str:
        """The state."""
        return "administrators and joining nodes have their rights"


def open_api(g: FragmentBuilder, *, on: Host) -> NodeHandle:
    """Adds `rights`, which waits for the host's API server and provides API_READY and JOINING_OPEN."""
    return g.add(
        "rights",
        FoundingObjectsApplied(),
        on=on,
        needs=API_SERVING,
        provides=(API_READY, JOINING_OPEN),
        retry=Retry(times=4, delay=0.5),
    )


def _objects() -> list[dict[str, Any]]:
    return [admin_binding(), *joining_objects()]


def _list(documents: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}).encode()


def _key(document: Mapping[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _stands(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    return live is not None and all(live.get(field) == wanted.get(field) for field in _COMPARED)
