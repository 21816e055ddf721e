from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.apis.v1alpha1.ranges import MOST, expand, expand_list

texts = st.text(alphabet="abcxyz-.", max_size=6)


def hint(text: str) -> str:
    with pytest.raises(ValueError, match="range") as caught:
        expand(text)
    return str(caught.value.context["hint"])  # type: ignore[attr-defined]


def test_ranges_include_both_ends() -> None:
    assert expand("cp[1:3]") == ("cp1", "cp2", "cp3")
    assert expand("10.0.0.[9:11]") == ("10.0.0.9", "10.0.0.10", "10.0.0.11")
    assert expand("rack[7:7].example") == ("rack7.example",)


def test_zeros_in_front_are_kept() -> None:
    assert expand("w[08:11]") == ("w08", "w09", "w10", "w11")
    assert expand("w[000:002]") == ("w000", "w001", "w002")


def test_a_text_without_a_range_stands_for_itself() -> None:
    assert expand("node1") == ("node1",)


@given(texts, st.integers(0, 500), st.integers(0, 300), st.integers(0, 4), texts)
def test_every_range_has_as_many_members_as_numbers(head: str, low: int, more: int, zeros: int, tail: str) -> None:
    width = max(len(str(low + more)), zeros)
    names = expand(f"{head}[{low:0{width}d}:{low + more:0{width}d}]{tail}")
    assert len(names) == more + 1 == len(set(names))
    assert len({len(name) for name in names}) == 1, "padded names are equally long"
    assert [int(name.removeprefix(head).removesuffix(tail)) for name in names] == list(range(low, low + more + 1))


@given(st.integers(0, 500), st.integers(0, 300))
def test_without_zeros_numbers_are_plain(low: int, more: int) -> None:
    assert expand(f"n[{low}:{low + more}]") == tuple(f"n{number}" for number in range(low, low + more + 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cp[1-3]", "did you mean `cp[1:3]`?"),
        ("cp[1..3]", "did you mean `cp[1:3]`?"),
        ("cp[3:1]", "did you mean `cp[1:3]`?"),
        ("w[01:9]", "did you mean `w[01:09]`?"),
        ("w[8:012]", "did you mean `w[008:012]`?"),
        ("cp[1:", "write a range like `node[1:3]` or `node[01:20]`"),
        ("cp[]", "write a range like `node[1:3]` or `node[01:20]`"),
        ("r[1:2]n[1:2]", "write one entry for each value of the other range"),
    ],
)
def test_a_wrong_range_names_the_nearest_right_one(text: str, said: str) -> None:
    assert hint(text) == said


def test_a_range_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand(f"n[0:{MOST}]")
    assert len(expand(f"n[1:{MOST}]")) == MOST


def test_lists_are_expanded_side_by_side() -> None:
    assert expand_list("10.0.0.[1:2], fd00::[1:2]") == ("10.0.0.1,fd00::1", "10.0.0.2,fd00::2")
    with pytest.raises(ValueError, match="same length"):
        expand_list("10.0.0.[1:2],fd00::[1:3]")
