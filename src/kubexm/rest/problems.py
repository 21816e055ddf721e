"""Errors as RFC 9457 problem documents, with the same words the command line has for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from kubexm.errors import (
    ConfigError,
    ConflictError,
    DatabaseError,
    KubexmError,
    LeaseHeldError,
    NotFoundError,
    PlanError,
    StalePlanError,
    StoreError,
    UsageError,
)
from kubexm.service.troubles import trouble

__all__ = ["MEDIA_TYPE", "Problem", "Refusal", "expected", "log", "problem_of", "respond"]

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong, and what to do next."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:kubexm:problem:conflict",
                    "title": "Conflict",
                    "status": 409,
                    "detail": "task 20261116-075341-c9f4 (create, running) is changing demo",
                    "hint": "wait for it to end, or cancel it",
                    "task": "20261116-075341-c9f4",
                }
            ]
        },
    )

    type: str = Field(description="Which kind of problem, as a URN.")
    title: str = Field(description="The kind in a few words; the same for all of its kind.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What went wrong, in the words of the command line.")
    hint: str = Field(default="", description="What to do next.")
    task: str | None = Field(default=None, description="The task that stands in the way.")
    problems: list[dict[str, Any]] | None = Field(
        default=None, description="For a spec: every problem, with line, column, path, message and hint."
    )


class Refusal(KubexmError):
    """An error that is about HTTP: who asks, how often, how much."""

    def __init__(
        self, status: int, kind: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


_STATUS: tuple[tuple[type[KubexmError], int, str], ...] = (
    (NotFoundError, 404, "not-found"),
    (LeaseHeldError, 409, "conflict"),
    (ConflictError, 409, "conflict"),
    (StalePlanError, 409, "stale-plan"),
    (StoreError, 503, "store"),
    (ConfigError, 422, "invalid-spec"),
    (PlanError, 422, "plan"),
    (UsageError, 422, "usage"),
)


def problem_of(error: BaseException) -> tuple[dict[str, Any], dict[str, str]]:
    """The problem document of an error, and headers that go with it."""
    if isinstance(error, HTTPException) and isinstance(error.__cause__, Refusal):
        error = error.__cause__  # met while the body was read
    if isinstance(error, Refusal):
        return _document(error.status, error.kind, error.message, error.hint), error.headers
    if isinstance(error, RequestValidationError):
        return _invalid(error), {}
    if isinstance(error, HTTPException):
        title = HTTPStatus(error.status_code).phrase
        detail = str(error.detail) if error.detail != title else _WORDS.get(error.status_code, title)
        kind = title.lower().replace(" ", "-")
        return _document(error.status_code, kind, detail, ""), dict(error.headers or {})
    if isinstance(error, DatabaseError):  # its own words name the database and its user; those are for the log
        hint = "try again in a few seconds; the server's log gives the cause"
        return _document(503, "store", "the server's database is not available", hint), {"Retry-After": "5"}
    if isinstance(error, KubexmError):
        status, kind = next(((code, kind) for each, code, kind in _STATUS if isinstance(error, each)), (500, "failed"))
        told = trouble(error)
        more = {name: told[name] for name in ("problems", "hosts", "task") if name in told}
        return _document(status, kind, told["message"], told["hint"], **more), {}
    told = trouble(error)
    return _document(500, "internal", "internal error", told["hint"]), {}


def log(logger: logging.Logger, error: BaseException, what: str) -> None:
    """Logs what an answer does not tell: bugs with their traceback, and why the database failed."""
    if isinstance(error, DatabaseError):
        logger.warning("%s: %s", what, error.message)
    elif not expected(error):
        logger.error("%s failed", what, exc_info=error)


def expected(error: BaseException) -> bool:
    """True for errors that are somebody else's doing; the others are ours, and belong into the log."""
    return isinstance(error, KubexmError | HTTPException | RequestValidationError)


_WORDS = {
    404: "there is nothing at this address; /api/v1/openapi.json lists what there is",
    405: "this address does not take this method; the header Allow says which it takes",
}


def respond(error: BaseException) -> Response:
    """The response for an error."""
    document, headers = problem_of(error)
    return Response(orjson.dumps(document), document["status"], headers, MEDIA_TYPE)


def _document(status: int, kind: str, detail: str, hint: str, **more: Any) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    found: dict[str, Any] = {"type": f"urn:kubexm:problem:{kind}", "title": title, "status": status, "detail": detail}
    if hint:
        found["hint"] = hint
    return {**found, **more}


def _invalid(error: RequestValidationError) -> dict[str, Any]:
    """What does not fit the schema: each with its place; never the value, which may be a secret."""
    found = [
        {
            "severity": "error",
            "path": ".".join(str(part) for part in each["loc"]),
            "message": each["msg"],
            "line": 0,
            "column": 0,
            "hint": "",
        }
        for each in error.errors()
    ]
    words = "; ".join(f"{each['path']}: {each['message']}" for each in found[:5])
    hint = "/api/v1/openapi.json says what is expected"
    return _document(422, "invalid-request", f"the request does not fit: {words}", hint, problems=found)
