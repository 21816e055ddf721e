"""Cursors: where a page of a list ended, in a form clients pass back and do not read."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any

from fastapi import Query

from kubexm.errors import UsageError
from kubexm.store.texts import clean

__all__ = ["Cursor", "Limit", "decode", "encode"]

Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]


def encode(*place: Any) -> str:
    """The cursor of a place."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """The place of a cursor, of these types; None without one; UsageError for one that is not ours."""
    if cursor is None:
        return None
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if isinstance(place, list) and len(place) == len(kinds) and all(map(_fits, place, kinds)):
        return tuple(place)
    raise UsageError("this is not a cursor", hint="leave it out to begin at the first page")


def _fits(part: Any, kind: type) -> bool:
    if type(part) is not kind:
        return False
    return clean(part) == part if isinstance(part, str) else not isinstance(part, int) or abs(part) < 2**53
