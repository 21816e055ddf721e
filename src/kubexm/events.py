"""What happens during a run, as immutable events. An event's id is its sequence number in the run's journal.

Observers receive events and can neither change nor stop a run. Must not know who emits or stores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import orjson

__all__ = ["Event", "EventKind", "Observer"]


class EventKind(StrEnum):
    """All there is to tell."""

    RUN_STARTED = "run.started"
    RUN_RESUMED = "run.resumed"
    RUN_ENDED = "run.ended"
    RUN_COST = "run.cost"
    """What users of the cluster experienced during the run; follows its end."""
    RUN_CANCELLING = "run.cancelling"
    HOST_LOST = "host.lost"
    UNIT_RUNNING = "unit.running"
    """A change is about to begin on (node, host); durable before it does."""
    UNIT_RETRY = "unit.retry"
    UNIT_DONE = "unit.done"
    UNIT_OUTPUT = "unit.output"
    """A piece of a command's output; live only, kept in the run's logs and not in the journal (sequence number 0)."""
    ROLLBACK_RUNNING = "rollback.running"
    ROLLBACK_DONE = "rollback.done"


class Event(NamedTuple):
    """One thing that happened, to a run or to a (node, host) of it. A tuple, since runs make many of them."""

    seq: int
    time: float
    kind: EventKind
    node: str = ""
    host: str = ""
    data: Mapping[str, Any] = {}

    def to_json(self) -> bytes:
        """One line of JSON, without a newline."""
        try:
            return orjson.dumps(tuple(self))
        except TypeError:  # text that is not valid Unicode, from somebody's file name
            return json.dumps(self).encode()

    @classmethod
    def from_json(cls, line: bytes) -> Event:
        """The event of a line made by `to_json`."""
        seq, time, kind, node, host, data = json.loads(line)  # unlike orjson, takes whatever to_json wrote
        return cls(seq, time, EventKind(kind), node, host, data)


class Observer(Protocol):
    """Someone who watches a run: a display, a store, a page."""

    def on_event(self, event: Event) -> None:
        """Called in order, from the engine's loop: must be quick; what it raises is logged and changes nothing."""
        ...
