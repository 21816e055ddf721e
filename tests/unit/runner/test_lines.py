"""Edits by lines and blocks, as laws."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.runner.lines import BlockError, block_of, with_block, with_line, without_block, without_line
from kubexm.runner.swap import without_swap

LINE = st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=12)
TEXT = st.lists(LINE, max_size=6).map(lambda lines: "".join(line + "\n" for line in lines))


@given(TEXT, LINE)
def test_a_line_is_there_once_added_and_gone_once_removed(text: str, line: str) -> None:
    added = with_line(text, line)
    assert line in added.split("\n")
    assert with_line(added, line) == added
    assert line not in without_line(added, line).split("\n")[:-1]


@given(TEXT, LINE)
def test_other_lines_stay(text: str, line: str) -> None:
    others = [x for x in text.split("\n")[:-1] if x != line]
    assert [x for x in with_line(text, line).split("\n")[:-1] if x != line] == others
    assert without_line(text, line) == "".join(x + "\n" for x in others)


@given(TEXT, TEXT)
def test_a_block_comes_and_goes(text: str, body: str) -> None:
    made = with_block(text, "kubexm", body)
    assert block_of(made, "kubexm") == body
    assert with_block(made, "kubexm", body) == made
    assert without_block(made, "kubexm") == text
    assert block_of(with_block(made, "kubexm", "other\n"), "kubexm") == "other\n"
    assert block_of(text, "kubexm") is None


def test_replacing_by_pattern() -> None:
    text = "a = 1\nb = 2\n#b = 0\n"
    assert with_line(text, "b = 3", r"^b\s*=") == "a = 1\nb = 3\n#b = 0\n"
    assert with_line(text, "b = 3", r"^#?b\s*=") == "a = 1\nb = 3\n"
    assert with_line(text, "c = 3", r"^c\s*=") == text + "c = 3\n"
    assert without_line(text, "", r"b") == "a = 1\n"


def test_what_is_no_line_break_to_a_file_is_none_here() -> None:
    text = "form\x0cfeed\u2028and\x85more\r\n"
    assert with_line(text, "x") == text + "x\n"


def test_a_file_without_a_last_line_break() -> None:
    assert with_line("a", "b") == "a\nb\n"
    assert with_line("a\nb", "b") == "a\nb"


def test_damaged_blocks_are_refused() -> None:
    begin, end = "# begin x (managed by kubexm)\n", "# end x\n"
    for text in (begin, end, end + begin, begin + begin + end, begin + end + end):
        with pytest.raises(BlockError):
            with_block(text, "x", "")
        with pytest.raises(BlockError):
            without_block(text, "x")
        with pytest.raises(BlockError):
            block_of(text, "x")


def test_blocks_of_other_names_are_left_alone() -> None:
    text = with_block("", "one", "1\n")
    both = with_block(text, "two", "2\n")
    assert without_block(both, "two") == text
    assert re.findall("begin (\\w+)", both) == ["one", "two"]


def test_swap_lines_of_fstab() -> None:
    fstab = "UUID=a / ext4 defaults 0 1\nUUID=b none swap sw 0 0\n#UUID=c none swap sw 0 0\n/swap.d /mnt ext4 x 0 0\n"
    edited = without_swap(fstab)
    assert edited.split("\n")[1] == "# switched off by kubexm: UUID=b none swap sw 0 0"
    assert [line for i, line in enumerate(edited.split("\n")) if i != 1] == [
        line for i, line in enumerate(fstab.split("\n")) if i != 1
    ]
    assert without_swap(edited) == edited
