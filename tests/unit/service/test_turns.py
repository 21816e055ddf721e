"""Who asks most does not get most."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kubexm.service.turns import next_task
from kubexm.store.tasks import Task


def task(number: int, actor: str) -> Task:
    return Task(id=f"t{number:03}", cluster=f"c{number}", action="create", actor=actor, created=float(number))


def order(waiting: list[Task], parallel: int) -> list[str]:
    """The actors in the order they are served, when each running task ends as the next one needs its place."""
    served: dict[str, int] = {}
    running: list[Task] = []
    found: list[str] = []
    while waiting:
        if len(running) == parallel:
            running.pop(0)
        chosen = next_task(waiting, running, served)
        assert chosen is not None
        waiting.remove(chosen)
        running.append(chosen)
        served[chosen.actor] = len(found) + 1
        found.append(chosen.actor)
    return found


def test_one_who_asks_once_does_not_wait_for_one_who_asked_a_hundred_times() -> None:
    waiting = [task(number, "ann") for number in range(100)] + [task(100, "bob")]
    assert order(waiting, 1).index("bob") <= 1


def test_nobody_waits_no_turn() -> None:
    assert next_task([], [], {}) is None


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.integers(1, 4))
def test_everybody_is_served_in_turn_and_each_ones_own_in_order(actors: list[str], parallel: int) -> None:
    waiting = [task(number, actor) for number, actor in enumerate(actors)]
    found = order(list(waiting), parallel)
    assert Counter(found) == Counter(actors)
    for actor in set(actors):
        others = {other for other in actors if other != actor}
        first = found.index(actor)
        assert first <= len(others) + parallel - 1, "at most everybody else once before"


def test_the_oldest_of_one_comes_first() -> None:
    chosen = next_task([task(2, "ann"), task(1, "ann")], [], {})
    assert chosen is not None
    assert chosen.id == "t002", "the queue's order is the order of asking"
