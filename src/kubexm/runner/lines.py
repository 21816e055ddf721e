"""Edits of text by lines and marked blocks, as pure functions. Must not know which file the text is from."""

from __future__ import annotations

import re

__all__ = ["BlockError", "block_of", "with_block", "with_line", "without_block", "without_line"]


class BlockError(ValueError):
    """A marked block that has no end, or an end that has no beginning."""


def with_line(text: str, line: str, match: str | None = None) -> str:
    """The text with this line: in place of the last one `match` finds (other finds go), else at the end."""
    lines = _lines(text)
    if match is None:
        return text if line in lines else _join([*lines, line])
    finds = [i for i, old in enumerate(lines) if old == line or re.search(match, old)]
    if not finds:
        return _join([*lines, line])
    if len(finds) == 1 and lines[finds[0]] == line:
        return text
    kept = [line if i == finds[-1] else old for i, old in enumerate(lines) if i == finds[-1] or i not in set(finds)]
    return _join(kept)


def without_line(text: str, line: str, match: str | None = None) -> str:
    """The text with no line equal to this one or found by `match`."""
    lines = _lines(text)
    kept = [old for old in lines if old != line and not (match is not None and re.search(match, old))]
    return text if len(kept) == len(lines) else _join(kept)


def block_of(text: str, name: str) -> str | None:
    """The marked block of this name, without its markers, or None if there is none."""
    place = _place(_lines(text), name)
    return None if place is None else _join(_lines(text)[place[0] + 1 : place[1]])


def with_block(text: str, name: str, body: str) -> str:
    """The text with this marked block, in its old place or at the end."""
    lines = _lines(text)
    block = [_begin(name), *_lines(body), _end(name)]
    place = _place(lines, name)
    if place is None:
        return _join([*lines, *block])
    return _join([*lines[: place[0]], *block, *lines[place[1] + 1 :]])


def without_block(text: str, name: str) -> str:
    """The text without the marked block of this name."""
    lines = _lines(text)
    place = _place(lines, name)
    return text if place is None else _join([*lines[: place[0]], *lines[place[1] + 1 :]])


def _place(lines: list[str], name: str) -> tuple[int, int] | None:
    begins = [i for i, line in enumerate(lines) if line.strip() == _begin(name)]
    ends = [i for i, line in enumerate(lines) if line.strip() == _end(name)]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise BlockError(f"its lines `{_begin(name)}` and `{_end(name)}` do not make one block")
    return begins[0], ends[0]


def _begin(name: str) -> str:
    return f"# begin {name} (managed by kubexm)"


def _end(name: str) -> str:
    return f"# end {name}"


def _lines(text: str) -> list[str]:
    """Split at line feeds only: whatever else a file holds stays as it is."""
    return text.removesuffix("\n").split("\n") if text else []


def _join(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)
