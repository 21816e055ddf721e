"""Which sets to remove: pure, from what is known about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["Candidate", "Verdict", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A set of this cluster."""

    name: str
    taken: datetime
    problems: tuple[str, ...] = ()
    """What `verify` finds."""
    sealed: bool = True
    """Whether CAs and keys are in it."""
    keys_gone: tuple[str, ...] = ()
    """Encryption keys of the set that the cluster does not have any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a set is removed, and why, or why not."""

    name: str
    removed: bool
    reason: str


def judge(
    sets: Sequence[Candidate], *, now: datetime, keep: int | None = None, older_than: timedelta | None = None
) -> list[Verdict]:
    """What becomes of each set, newest first: only good ones beyond the newest `keep` that are older are removed.

    Never removed: the newest good set, the newest good one with sealed keys, damaged sets, and sets whose encryption
    key the cluster has lost, since they may hold its only copy.
    """
    found: list[Verdict] = []
    good = sealed = 0
    for each in sorted(sets, key=lambda one: (one.taken, one.name), reverse=True):
        if each.problems:
            found.append(Verdict(each.name, False, f"damaged, remove it yourself: {each.problems[0]}"))
            continue
        good, sealed = good + 1, sealed + each.sealed
        if good == 1:
            reason = "newest good set"
        elif each.sealed and sealed == 1:
            reason = "newest good set with sealed keys"
        elif each.keys_gone:
            reason = f"may hold the only copy of encryption key {', '.join(each.keys_gone)}"
        elif keep is not None and good <= keep:
            reason = f"one of the newest {keep}"
        elif older_than is not None and now - each.taken < older_than:
            reason = "not old enough"
        else:
            found.append(Verdict(each.name, True, "old"))
            continue
        found.append(Verdict(each.name, False, reason))
    return found
