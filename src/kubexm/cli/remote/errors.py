"""What a server refuses or reports, as the errors the command line has for the same: same words, same exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubexm import errors
from kubexm.errors import (
    ConfigError,
    ConflictError,
    ConnectError,
    InitializationError,
    KubexmError,
    NotFoundError,
    PlanError,
    StalePlanError,
    StoreError,
    UsageError,
)

__all__ = ["of_problem", "of_trouble"]

_KINDS: dict[str, type[KubexmError]] = {
    "not-found": NotFoundError,
    "conflict": ConflictError,
    "stale-plan": StalePlanError,
    "store": StoreError,
    "invalid-spec": ConfigError,
    "plan": PlanError,
    "usage": UsageError,
    "invalid-request": UsageError,
    "unauthenticated": UsageError,
    "forbidden": UsageError,
    "too-large": UsageError,
}
_TOKEN = "give another token: --token-file, or KUBEXM_TOKEN; `kubexm serve token create` on the server makes one"  # noqa: S105


def of_problem(status: int, document: Mapping[str, Any]) -> KubexmError:
    """The error of a problem document."""
    kind = str(document.get("type", "")).rpartition(":")[2]
    message = str(document.get("detail") or f"the server answered with {status}")
    hint = _TOKEN if kind == "unauthenticated" else str(document.get("hint", ""))
    if kind == "conflict":
        return ConflictError(message, hint=hint, task=str(document.get("task") or ""))
    return _KINDS.get(kind, KubexmError)(message, hint=hint)


def of_trouble(told: Mapping[str, Any]) -> KubexmError:
    """The error that ended a task."""
    kind, message, hint = str(told.get("kind", "")), str(told.get("message", "")), str(told.get("hint", ""))
    if kind == "InitializationError" and told.get("hosts"):
        return InitializationError(
            ConnectError(each["message"], host=each["host"], hint=each["hint"]) for each in told["hosts"]
        )
    if kind == "ConfigErrors":
        return ConfigError(message, hint=hint)
    found = getattr(errors, kind, KubexmError) if kind.isidentifier() else KubexmError
    try:
        made: KubexmError = found(message, hint=hint)
    except TypeError:  # one that is told in other parts than these
        made = KubexmError(message, hint=hint)
    return made
