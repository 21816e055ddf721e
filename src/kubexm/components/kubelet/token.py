"""The token nodes join with: made on demand, through the API of one control plane, and worth nothing an hour later."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubexm.cache import Key, Scope
from kubexm.components.api import kube_client, through_api
from kubexm.components.control_plane import BOOTSTRAPPERS
from kubexm.components.milestones import JOINING_OPEN
from kubexm.redact import Secret
from kubexm.runtime import StepContext, TaskContext
from kubexm.step import Check, Resources, Step, Values, resources
from kubexm.task import FragmentBuilder, NodeHandle

__all__ = ["JOIN_TOKEN", "JoinTokenMade", "join_token"]

JOIN_TOKEN: Final[Key[Secret]] = Key("kubelet.join-token", secret=True, expires=True)

_MADE: Final[Key[Secret]] = Key("kubelet.join-token.made", secret=True, expires=True, scope=Scope.STEP)
_LIFE: Final = timedelta(hours=1)
_LETTERS: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenMade(Step):
    """The API knows a token that this run made, for nodes that are about to join."""

    async def precheck(self, ctx: StepContext) -> Check:
        """A token of an earlier process is never used again: it is in no journal."""
        if (_MADE, "") not in ctx.cache:
            return Check(False, reason="no token was made in this run")
        return Check(True, values={JOIN_TOKEN: ctx.cache.get(_MADE)})

    async def run(self, ctx: StepContext) -> Values:
        """Makes one up and tells the API."""
        name, word = _letters(6), _letters(16)
        token = Secret(f"{name}.{word}")
        until = datetime.now(UTC) + _LIFE
        data = {
            "token-id": name,
            "token-secret": word,
            "description": f"for nodes that join in the run {ctx.run} of kubexm",
            "expiration": f"{until:%Y-%m-%dT%H:%M:%SZ}",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": BOOTSTRAPPERS,
        }
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": f"bootstrap-token-{name}", "namespace": "kube-system"},
            "stringData": data,
        }
        await kube_client(ctx, patience=60.0).apply([document])
        ctx.cache.set(_MADE, token)
        return {JOIN_TOKEN: token}

    def reads(self) -> Resources:
        """Nothing that anybody else writes."""
        return resources("api:join-token")

    def writes(self) -> Resources:
        """The token."""
        return resources("api:join-token")

    def produces(self) -> tuple[Key[Any], ...]:
        """The token."""
        return (JOIN_TOKEN,)

    def describe(self) -> str:
        """The state."""
        return "a token for joining"


def join_token(g: FragmentBuilder, ctx: TaskContext) -> NodeHandle:
    """Adds the node that makes the token, if some node turns out to need one."""
    return g.add("token", JoinTokenMade(), needs=JOINING_OPEN, on_demand=True, **through_api(ctx))


def _letters(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
