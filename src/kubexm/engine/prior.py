"""What an interrupted run left in its journal: what was done, what was under way, and the values produced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubexm.engine.layout import Layout
from kubexm.engine.layout import Unit as Index
from kubexm.events import Event, EventKind
from kubexm.plan import RunStatus, State

__all__ = ["Prior", "PriorAttempt"]

Unit = tuple[str, str]
_GOOD = (State.SUCCEEDED, State.SATISFIED)


@dataclass(frozen=True, slots=True)
class PriorAttempt:
    """A change that had begun and whose end the journal does not know."""

    attempt: int
    receipts: str
    boot_id: str
    deadline: float
    actor: str = ""
    """The host it was done from, if not its own."""


@dataclass(frozen=True, slots=True)
class Prior:
    """The journal of a run, read back."""

    done: Mapping[Unit, Mapping[str, Any]] = field(default_factory=dict)
    """The last end of each (node, host)."""
    under_way: Mapping[Unit, PriorAttempt] = field(default_factory=dict)
    attempts: Mapping[Unit, int] = field(default_factory=dict)
    """How many attempts each had: receipts are never named twice."""
    rolled_back: frozenset[Unit] = frozenset()
    rollbacks: Mapping[Unit, int] = field(default_factory=dict)
    """How often a rollback of each was begun: their receipts are never named twice either."""
    begun: Mapping[Unit, int] = field(default_factory=dict)
    """When each last began to change something, or was found satisfied, as a sequence number."""
    held: Mapping[Unit, int] = field(default_factory=dict)
    """When each last ended well."""
    reported: frozenset[Unit] = frozenset()
    """Units done by the time the run succeeded: their changes were reported then, and cannot be rolled back."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Prior:
        """Replays events."""
        done: dict[Unit, Mapping[str, Any]] = {}
        under_way: dict[Unit, PriorAttempt] = {}
        attempts: dict[Unit, int] = {}
        rolled_back: set[Unit] = set()
        rollbacks: dict[Unit, int] = {}
        begun: dict[Unit, int] = {}
        held: dict[Unit, int] = {}
        reported: set[Unit] = set()
        for event in events:
            unit = (event.node, event.host)
            data = event.data
            match event.kind:
                case EventKind.UNIT_RUNNING:
                    attempts[unit] = data["attempt"]
                    begun[unit] = event.seq
                    under_way[unit] = PriorAttempt(
                        data["attempt"], data["receipts"], data["boot"], data["deadline"], data.get("actor", "")
                    )
                    rolled_back.discard(unit)
                    reported.discard(unit)
                case EventKind.UNIT_RETRY:
                    under_way.pop(unit, None)
                case EventKind.UNIT_DONE:
                    if data["state"] == State.INTERRUPTED:
                        continue  # what was stopped midway is still under way as far as anyone knows
                    done[unit] = {**data, "ended": event.time}
                    if data["state"] in _GOOD:
                        held[unit] = event.seq
                    if data["state"] == State.SATISFIED:
                        begun[unit] = event.seq
                    under_way.pop(unit, None)
                case EventKind.ROLLBACK_RUNNING:
                    rollbacks[unit] = rollbacks.get(unit, 0) + 1
                case EventKind.ROLLBACK_DONE if data.get("ok"):
                    rolled_back.add(unit)
                    done.pop(unit, None)
                case EventKind.RUN_ENDED if data["status"] == RunStatus.SUCCEEDED:
                    reported.update(done)
                case _:
                    pass
        return cls(done, under_way, attempts, frozenset(rolled_back), rollbacks, begun, held, frozenset(reported))

    def opened(self, layout: Layout) -> list[Index]:
        """The opening units of brackets that were not closed since."""
        return [
            opener
            for opener, closer in layout.closer_of.items()
            if self.begun.get(layout.name(opener), -1) > self.held.get(layout.name(closer), -1)
        ]

    def changed(self, unit: Unit) -> bool:
        """True if this run has changed it, or may have, and did not end well since."""
        if unit in self.rolled_back or unit in self.reported:
            return False
        return unit in self.under_way or self.done.get(unit, {}).get("state") == State.SUCCEEDED
