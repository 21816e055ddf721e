"""What an answer of the API that is no success means. Pure: from a status code and a Status object to a typed error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kubexm.components.api.requests import Request, Response
from kubexm.errors import (
    ApiConflict,
    ApiError,
    ApiExpired,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiTooManyRequests,
    ApiUnauthorized,
    ApiUnavailable,
    EvictionBlocked,
)

__all__ = ["failure_of", "is_later", "is_passing"]

_BUDGET: Final = "DisruptionBudget"
"""The cause the API gives for an eviction that a PodDisruptionBudget does not allow."""
_MOST: Final = 400

_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    400: ApiInvalid,
    401: ApiUnauthorized,
    403: ApiForbidden,
    404: ApiNotFound,
    409: ApiConflict,
    410: ApiExpired,
    415: ApiInvalid,
    422: ApiInvalid,
    429: ApiTooManyRequests,
}
_NO_SCHEMA: Final = re.compile(r"field not declared in schema|failed to create typed patch object")
"""Said with a status of 500, of an object that does not fit its schema."""
_LATER: Final = re.compile(
    r'namespaces "[^"]*" not found|because it is being terminated|object is being deleted'
    r"|failed calling webhook|no endpoints available for service|could not find the requested resource"
)
"""Something the change needs is not there yet, and may be in a moment."""


def failure_of(host: str, request: Request, response: Response) -> ApiError:
    """The error that a response with a status of 400 or more stands for."""
    status = _status(response.body)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip()
    details = status.get("details") or {}
    causes = tuple(
        str(cause.get("message") or cause.get("reason") or "") for cause in details.get("causes") or () if cause
    )
    kind = _BY_CODE.get(response.status) or (ApiUnavailable if response.status >= 500 else ApiError)
    kind = ApiInvalid if kind is ApiUnavailable and _NO_SCHEMA.search(message) else kind
    text = f"{request.what}: {message or _plain(response.body) or f'HTTP status {response.status}'}"[:_MOST]
    if kind is ApiTooManyRequests and _is_budget(request, details, message):
        return EvictionBlocked(text, host=host, status=response.status, reason=reason, causes=causes or (message,))
    return kind(
        text,
        host=host,
        status=response.status,
        reason=reason,
        causes=causes,
        retry_after=_seconds(response.headers.get("retry-after", "") or details.get("retryAfterSeconds")),
        hint=_HINTS.get(kind, ""),
    )


def is_passing(error: ApiError) -> bool:
    """True if the server is away, starting or busy: the same request is worth repeating, here or elsewhere."""
    if isinstance(error, EvictionBlocked):
        return False
    return isinstance(error, ApiUnavailable | ApiTooManyRequests | ApiUnauthorized)


def is_later(error: ApiError) -> bool:
    """True if something that a change needs is not there yet: a kind, a namespace, a webhook."""
    return error.reason == "KindUnknown" or _LATER.search(error.message) is not None


_HINTS: Final[Mapping[type[ApiError], str]] = {
    ApiForbidden: "the administrator's rights are a ClusterRoleBinding: run `create` again, which restores it",
    ApiUnauthorized: "the certificate in /etc/kubernetes/admin.conf may have expired, or be of another cluster",
    ApiUnavailable: "is the API server up? `crictl ps -a` and `journalctl -u kubelet` on this host tell more",
    ApiInvalid: "correct the object; an immutable field cannot be changed in place: delete the object first",
}


def _is_budget(request: Request, details: Mapping[str, Any], message: str) -> bool:
    if any(cause.get("reason") == _BUDGET for cause in details.get("causes") or ()):
        return True
    return request.path.endswith("/eviction") and "disruption budget" in message


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _plain(body: bytes) -> str:
    return " ".join(body.decode(errors="replace").split())


def _seconds(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
