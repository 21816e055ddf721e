"""Whatever text a host prints can be kept and read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubexm.plan.results import _WORST_FIRST as PLAN_WORST_FIRST
from kubexm.store.run_rows import _WORST_FIRST
from kubexm.store.texts import clean, from_json, to_json


@given(st.text(alphabet=st.characters()))
def test_text_is_made_fit_for_every_database(text: str) -> None:
    kept = clean(text)
    assert "\0" not in kept
    kept.encode()
    assert clean(kept) == kept


@given(
    st.recursive(
        st.none() | st.integers(0, 9) | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_survives(data: object) -> None:
    text = to_json(data)
    text.encode()
    assert "\0" not in text
    from_json(text)


def test_half_characters_do_not_lose_the_rest() -> None:
    assert from_json(to_json({"a\ud83d": ["ok", "\ud83d"]})) == {"a?": ["ok", "?"]}


def test_the_worst_state_is_the_plans_worst_state() -> None:
    assert tuple(state.value for state in PLAN_WORST_FIRST) == _WORST_FIRST
