"""Whose turn it is when more tasks wait than may run: everybody's in turn, not those who asked most. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kubexm.store.tasks import Task

__all__ = ["next_task"]


def next_task(waiting: Sequence[Task], running: Iterable[Task], served: Mapping[str, int]) -> Task | None:
    """The task to start: of those who have the fewest running, of whoever was served longest ago; his oldest.

    `served` says when each actor was last served, as a number that grows.
    """
    busy = Counter(task.actor for task in running)
    first: dict[str, Task] = {}
    for task in waiting:
        first.setdefault(task.actor, task)
    if not first:
        return None
    return min(first.values(), key=lambda task: (busy[task.actor], served.get(task.actor, 0), task.created, task.id))
