"""Who may do what: tokens and sessions to a principal, and what a principal may do with which cluster.

A role on a cluster includes those below it. Clusters somebody has no role on do not exist for them.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from kubexm.errors import NotFoundError
from kubexm.rest.problems import Refusal
from kubexm.rest.state import Server, server_of
from kubexm.store.tasks import Task
from kubexm.store.tokens import EVERY_CLUSTER, Token

__all__ = [
    "COOKIE",
    "CSRF_HEADER",
    "Admin",
    "Anyone",
    "ClusterName",
    "ClusterOperator",
    "ClusterViewer",
    "Principal",
    "Role",
    "TaskOperator",
    "TaskViewer",
    "authenticate",
    "csrf_of",
]

COOKIE = "kubexm_session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ClusterName = Annotated[
    str, Path(description="Name of the cluster.", pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", examples=["demo"])
]
TaskId = Annotated[
    str, Path(description="Id of the task.", pattern=r"^[A-Za-z0-9-]{1,64}$", examples=["20261116-075341-c9f4"])
]


class Role(IntEnum):
    """What somebody may do; each includes the ones before."""

    NONE = 0
    VIEWER = 1
    """See clusters, tasks, results and logs."""
    OPERATOR = 2
    """Also edit specs, store secrets, run and stop tasks, take the kubeconfig."""
    ADMIN = 3
    """Also give and revoke tokens, and read the audit."""

    @classmethod
    def named(cls, name: str) -> Role:
        """The role of a name; one nobody knows is none."""
        return cls.__members__.get(name.upper(), cls.NONE)


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever makes a request."""

    token: Token
    session: str = ""
    """The secret of the session, for those who come with a cookie."""

    @property
    def name(self) -> str:
        """What the audit and tasks call them."""
        return self.token.name

    def role_on(self, cluster: str) -> Role:
        """What they may do with a cluster."""
        grants = self.token.grants
        return Role.named(grants.get(cluster, grants.get(EVERY_CLUSTER, "")))

    @property
    def everywhere(self) -> Role:
        """What they may do with clusters that are not named."""
        return Role.named(self.token.grants.get(EVERY_CLUSTER, ""))

    @property
    def clusters(self) -> list[str] | None:
        """The clusters they may see; None for all."""
        if self.everywhere >= Role.VIEWER:
            return None
        return sorted(name for name in self.token.grants if name != EVERY_CLUSTER)


async def authenticate(request: Request) -> Principal:
    """Who makes this request; once for each request. Refuses with 401 or, for a forged one, 403."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is None:
        server = server_of(request)
        known = await _principal(request, server)
        request.state.principal = known
        server.rates.take(f"token {known.token.id}")
        await _touch(server, known.token)
    return known


async def _principal(request: Request, server: Server) -> Principal:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme:
        token = await server.store.tokens.check(shown.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise _unknown(request, server, "this token is not valid: it is unknown, expired or revoked")
        return Principal(token)
    session = request.cookies.get(COOKIE, "")
    if not session:
        raise _unknown(request, server, "this needs a token")
    token = await server.store.tokens.session(session)
    if token is None:
        raise _unknown(request, server, "this session has ended")
    if request.method not in _SAFE:
        _refuse_forged(request, session)
    return Principal(token, session)


def _unknown(request: Request, server: Server, message: str) -> Refusal:
    server.failures.take(f"address {request.client.host if request.client else ''}")
    return Refusal(
        401,
        "unauthenticated",
        message,
        hint="send `Authorization: Bearer TOKEN`; `kubexm serve token create` makes one",
        headers={"WWW-Authenticate": "Bearer"},
    )


def csrf_of(session: str) -> str:
    """What a page of ours sends along with each change, and no other page can know."""
    return hmac.new(session.encode(), b"kubexm csrf", hashlib.sha256).hexdigest()


def _refuse_forged(request: Request, session: str) -> None:
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    same = not origin or origin.partition("://")[2] == host
    if not same or not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), csrf_of(session).encode()):
        raise Refusal(
            403,
            "forged",
            "this request does not come from the page",
            hint=f"send the header {CSRF_HEADER} with what GET /api/v1/session says",
        )


async def _touch(server: Server, token: Token) -> None:
    """Notes now and then that the token is used."""
    now = time.time()
    if now - server.touched.get(token.id, token.used or 0.0) > 60.0:
        server.touched[token.id] = now
        await server.store.tokens.touch(token.id)


def _refuse(role: Role, wanted: Role, what: str) -> None:
    if role < wanted:
        raise Refusal(
            403,
            "forbidden",
            f"{what} needs the role {wanted.name.lower()}, and this token has {role.name.lower()}",
            hint="ask an administrator for a token with that role",
        )


Anyone = Annotated[Principal, Depends(authenticate)]


async def _admin(who: Anyone) -> Principal:
    _refuse(who.everywhere, Role.ADMIN, "this")
    return who


def _on_cluster(wanted: Role) -> Callable[..., Coroutine[Any, Any, Principal]]:
    async def check(who: Anyone, name: ClusterName) -> Principal:
        role = who.role_on(name)
        if role is Role.NONE:
            raise NotFoundError(f"there is no cluster {name!r}", hint="GET /api/v1/clusters lists them")
        _refuse(role, wanted, f"this on {name}")
        return who

    return check


def _on_task(wanted: Role) -> Callable[..., Coroutine[Any, Any, Task]]:
    async def check(request: Request, who: Anyone, task: TaskId) -> Task:
        found = await server_of(request).store.tasks.get(task)
        role = who.role_on(found.cluster)
        if role is Role.NONE:
            raise NotFoundError(f"there is no task {task!r}", hint="GET /api/v1/tasks lists them")
        _refuse(role, wanted, f"this on {found.cluster}")
        return found

    return check


Admin = Annotated[Principal, Depends(_admin)]
ClusterViewer = Annotated[Principal, Depends(_on_cluster(Role.VIEWER))]
ClusterOperator = Annotated[Principal, Depends(_on_cluster(Role.OPERATOR))]
TaskViewer = Annotated[Task, Depends(_on_task(Role.VIEWER))]
TaskOperator = Annotated[Task, Depends(_on_task(Role.OPERATOR))]
