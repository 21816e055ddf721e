from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.config.document import Path, read

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"], exclude_characters="\ufeff"),
    max_size=12,
)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
roots = st.dictionaries(texts, trees, max_size=5)


def written(value: Any) -> str:
    """JSON over several lines, which is YAML."""
    return json.dumps(value, ensure_ascii=False, indent=1)


@given(roots)
def test_what_is_written_is_read(value: dict[str, Any]) -> None:
    document = read(written(value))
    assert document.complaints == []
    assert document.data == value


def _paths(value: Any, path: Path = ()) -> list[Path]:
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path, *(found for key, child in children for found in _paths(child, (*path, key)))]


@given(roots)
def test_everything_has_a_place_inside_the_text(value: dict[str, Any]) -> None:
    text = written(value)
    document = read(text)
    lines = text.splitlines() or [""]
    for path in _paths(value):
        assert document.has(path)
        place = document.place(path)
        assert 1 <= place.line <= len(lines)
        assert place.column >= 1


@given(st.text(max_size=60))
def test_any_text_at_all_is_read_or_complained_about(text: str) -> None:
    document = read(text)
    for complaint in document.complaints:
        assert complaint.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1F", 31),
        ("0o17", 15),
        ("-12", -12),
        ("+7", 7),
        ("1_000", 1000),
        ("1.5e3", 1500.0),
        (".inf", math.inf),
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("null", None),
        ("2024-01-01", "2024-01-01"),
        ("!!str 12", "12"),
        ("'12'", "12"),
        ("12:30", "12:30"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    assert read(f"x: {text}").data == {"x": value}


def test_the_place_of_what_is_not_written_is_that_of_what_holds_it() -> None:
    document = read("a:\n  b: 1\n")
    assert (document.place(("a", "c", "d")).line, document.place(("a", "c", "d")).column) == (1, 1)
    assert (document.place(("a", "b")).line, document.place(("a", "b")).column) == (2, 6)
    assert document.place(("a", "b"), key=True).column == 3


def test_merged_keys_have_the_precedence_of_yaml() -> None:
    """What is written wins over what is merged, at every level, and earlier mappings over later ones."""
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2, z: 2}\nc: &c {x: 3, w: 3}\nd: {<<: [*b, *c], z: 4}\n"
    document = read(text)
    assert document.complaints == []
    assert document.data["b"] == {"x": 2, "y": 1, "z": 2}
    assert document.data["d"] == {"x": 2, "y": 1, "z": 4, "w": 3}


def test_merges_that_double_at_each_line_take_no_time() -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 41))]
    document = read("\n".join(lines))
    assert document.complaints == []
    assert document.data["a40"] == {"x": 1}


def test_merges_are_counted_as_values() -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 2000))]
    (complaint,) = read("\n".join(lines)).complaints
    assert "too much data" in complaint.message


@pytest.mark.parametrize("text", ["x: &a {<<: *a}", "x: &a {y: {<<: [*a]}}", "x: &a {<<: [{<<: *a}]}"])
def test_a_mapping_that_merges_itself_is_refused(text: str) -> None:
    (complaint,) = read(text).complaints
    assert complaint.message == "this alias contains itself"


def test_half_a_surrogate_pair_is_refused_and_a_pair_is_one_character() -> None:
    for text in (r'a: "\ud800"', r'a: {"\udfff": 1}'):
        (complaint,) = read(text).complaints
        assert "half of a surrogate pair" in complaint.message
    document = read(r'a: "\ud83d\ude00"')
    assert (document.data, document.complaints) == ({"a": "\N{GRINNING FACE}"}, [])
