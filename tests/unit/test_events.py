"""Events are immutable and survive being written down, whatever text they carry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.events import Event, EventKind

texts = st.text(alphabet=st.characters(codec=None))  # lone surrogates too: names of files may hold them
data = st.dictionaries(
    texts,
    st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64) | texts, lambda x: st.lists(x, max_size=3)),
)


@given(
    event=st.builds(
        Event,
        st.integers(0, 2**40),
        st.floats(0, 2e9),
        st.sampled_from(EventKind),
        texts,
        texts,
        data,
    )
)
def test_an_event_is_one_line_and_comes_back_equal(event: Event) -> None:
    line = event.to_json()
    assert b"\n" not in line
    assert Event.from_json(line) == event


def test_a_line_is_plain_json_that_other_programs_can_read() -> None:
    event = Event(7, 1.5, EventKind.UNIT_DONE, "m.t.n", "n1", {"state": "succeeded"})
    assert json.loads(event.to_json()) == [7, 1.5, "unit.done", "m.t.n", "n1", {"state": "succeeded"}]


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Event(1, 0.0, EventKind.RUN_ENDED).seq = 2  # type: ignore[misc]


def test_kinds_are_named_by_what_they_are_about() -> None:
    assert {kind.partition(".")[0] for kind in EventKind} == {"run", "host", "unit", "rollback"}
