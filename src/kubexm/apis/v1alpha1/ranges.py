"""Ranges in names and addresses: `w[01:20]`, `10.0.0.[11:13]`. Must not know what they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kubexm.apis.v1alpha1.base import invalid, shown

__all__ = ["MOST", "expand", "expand_list", "short_hosts"]

MOST: Final = 10_000
_RANGE: Final = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")
_NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<number>[0-9]+)(?P<suffix>[^0-9]*)")
_SHORTEST_RANGE: Final = 3


def expand(text: str) -> tuple[str, ...]:
    """Every text a pattern stands for, in order; a text with no range stands for itself.

    Both ends are included. Zeros in front are kept: `w[01:20]` is w01, w02, … w20.
    """
    if "[" not in text and "]" not in text:
        return (text,)
    match = _RANGE.search(text)
    if match is None:
        nearest = re.sub(r"\[\s*([0-9]+)\s*(?:-|\.\.|,|:)\s*([0-9]+)\s*\]", r"[\1:\2]", text)
        hint = f"did you mean `{nearest}`?" if nearest != text else "write a range like `node[1:3]` or `node[01:20]`"
        raise invalid(f"{shown(text)} has a range that cannot be read", hint)
    head, tail = text[: match.start()], text[match.end() :]
    if "[" in head + tail or "]" in head + tail:
        raise invalid(f"{shown(text)} has more than one range", "write one entry for each value of the other range")
    first, last = match[1], match[2]
    padded = (len(first) > 1 and first[0] == "0") or (len(last) > 1 and last[0] == "0")
    if padded and len(first) != len(last):
        width = max(len(first), len(last))
        raise invalid(
            f"the ends of the range in {shown(text)} have zeros in front but not the same length",
            f"did you mean `{head}[{first.zfill(width)}:{last.zfill(width)}]{tail}`?",
        )
    low, high = int(first), int(last)
    if low > high:
        raise invalid(f"the range in {shown(text)} runs backwards", f"did you mean `{head}[{last}:{first}]{tail}`?")
    if high - low >= MOST:
        raise invalid(f"the range in {shown(text)} has {high - low + 1} members, more than {MOST}")
    width = len(first) if padded else 0
    return tuple(f"{head}{number:0{width}d}{tail}" for number in range(low, high + 1))


def expand_list(text: str) -> tuple[str, ...]:
    """Expands each part of a text with commas, and joins the parts again member by member.

    `10.0.0.[1:2],fd00::[1:2]` is `10.0.0.1,fd00::1` and `10.0.0.2,fd00::2`.
    """
    columns = [expand(part.strip()) for part in text.split(",")]
    if len({len(column) for column in columns}) > 1:
        raise invalid(f"the ranges in {shown(text)} do not have the same length")
    return tuple(",".join(row) for row in zip(*columns, strict=True))


def short_hosts(hosts: Iterable[str]) -> str:
    """The hosts in their order, three or more with consecutive numbers written as a range: `cp[1:3], edge`."""
    parts: list[str] = []
    run: list[str] = []
    for host in hosts:
        if run and not _follows(run[-1], host):
            parts += _written(run)
            run = []
        run.append(host)
    return ", ".join([*parts, *_written(run)])


def _written(run: list[str]) -> list[str]:
    if len(run) < _SHORTEST_RANGE:
        return run
    first, last = _split(run[0]), _split(run[-1])
    assert first is not None
    assert last is not None
    return [f"{first[0]}[{first[1]}:{last[1]}]{first[2]}"]


def _follows(one: str, other: str) -> bool:
    a, b = _split(one), _split(other)
    if a is None or b is None or (a[0], a[2]) != (b[0], b[2]):
        return False
    padded = a[1].startswith("0") or b[1].startswith("0")
    return int(b[1]) == int(a[1]) + 1 and (len(a[1]) == len(b[1]) or not padded)


def _split(host: str) -> tuple[str, str, str] | None:
    match = _NUMBERED.fullmatch(host)
    return None if match is None else (match["prefix"], match["number"], match["suffix"])
