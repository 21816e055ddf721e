"""A request to the API and its answer, whatever carries them. Must not know hosts, TLS or kubectl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from kubexm.components.api.documents import Ref

__all__ = ["APPLY", "JSON", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "Request", "Response"]

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    """Sent as JSON, which is YAML too."""
    content_type: str = JSON
    accept: str = JSON
    what: str
    """For errors and logs: `get nodes`, `apply Deployment kube-system/coredns`."""
    timeout: float = 20.0
    """Seconds for the whole answer, or for its beginning if it is a stream."""
    ref: Ref | None = None
    """The object, if it is one that is asked for."""

    @property
    def changes(self) -> bool:
        """True if it may change something: neither a read nor a dry run."""
        return self.method not in ("GET", "HEAD") and ("dryRun", "All") not in self.query

    @property
    def target(self) -> str:
        """Path and query, as HTTP has it."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def content(self) -> bytes | None:
        """The body in bytes."""
        return None if self.body is None else json.dumps(self.body, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer, whole."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True for a success."""
        return self.status < 400

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)
