"""Errors as plain data: what went wrong and what to do, in the same words everywhere. Secrets are masked."""

from __future__ import annotations

from typing import Any

from kubexm.config import ConfigErrors
from kubexm.errors import ConflictError, HostError, InitializationError, KubexmError, LeaseHeldError
from kubexm.redact import Redactor

__all__ = ["trouble"]


def trouble(error: BaseException, redact: Redactor | None = None) -> dict[str, Any]:
    """The error for those who were not there: kind, message, hint, and what belongs to its kind."""
    mask = redact or Redactor()
    if not isinstance(error, KubexmError):
        name = type(error).__name__
        return {
            "kind": "InternalError",
            "message": mask(f"internal error: {name}: {error}"),
            "hint": "this is a bug in kubexm; the server's log shows where",
        }
    message = error.message
    if isinstance(error, HostError) and error.host and error.host not in message:
        message = f"{error.host}: {message}"
    found: dict[str, Any] = {"kind": type(error).__name__, "message": mask(message), "hint": mask(error.hint)}
    match error:
        case ConfigErrors():
            found["problems"] = [
                {
                    **each.as_json(),
                    "message": mask(each.message),
                    "excerpt": mask(each.excerpt),
                    "span": list(each.span),
                }
                for each in (*error.problems, *error.warnings)
            ]
        case InitializationError():
            found["hosts"] = [
                {"host": each.host, "message": mask(each.message), "hint": mask(each.hint)} for each in error.errors
            ]
        case LeaseHeldError():
            found["task"] = error.run
        case ConflictError() if error.task:
            found["task"] = error.task
    return found
