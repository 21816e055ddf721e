"""Which objects a list or a watch is about, and what a watch brings. Pure data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kubexm.components.api.failures import failure_of
from kubexm.components.api.requests import Request, Response
from kubexm.components.api.resources import Kind

__all__ = ["Event", "Selection", "event_of", "place_of"]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind."""

    kind: Kind
    namespace: str = ""
    """Empty: all namespaces."""
    labels: str = ""
    """A label selector, as kubectl takes it."""
    fields: str = ""
    """A field selector, as kubectl takes it."""

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """For the URL."""
        wanted = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return tuple((name, value) for name, value in wanted if value)

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind}{place}" + "".join(f" with {one}" for one in (self.labels, self.fields) if one)


@dataclass(frozen=True, slots=True)
class Event:
    """What a watch brings: an object as it is now, or as it was before it was deleted."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Document


def place_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and name of an object."""
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]


def event_of(line: bytes, selection: Selection) -> Event:
    """One line of a watch; raises ApiError if that says that the watch is over."""
    data = json.loads(line)
    if data["type"] == "ERROR":
        status = data["object"]
        response = Response(status=int(status.get("code") or 500), body=json.dumps(status).encode())
        raise failure_of("", Request(method="GET", path="", what=f"watch {selection}"), response)
    return Event(data["type"], data["object"])
