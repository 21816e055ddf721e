"""Which sets `prune` removes: never the newest good one, never damaged ones, never the only copy of a key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubexm.components.backup.retention import Candidate, judge

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def candidate(days: int, *, damaged: bool = False, gone: bool = False, sealed: bool = True) -> Candidate:
    return Candidate(
        name=f"day{days}",
        taken=NOW - timedelta(days=days),
        sealed=sealed,
        problems=("truncated",) if damaged else (),
        keys_gone=("secretbox:key1:00",) if gone else (),
    )


def removed(*sets: Candidate, keep: int | None = None, older: int | None = None) -> list[str]:
    age = None if older is None else timedelta(days=older)
    return [each.name for each in judge(sets, now=NOW, keep=keep, older_than=age) if each.removed]


def test_the_newest_stay_whatever_their_order() -> None:
    sets = [candidate(days) for days in (3, 1, 2, 4)]
    assert removed(*sets, keep=2) == ["day3", "day4"]


def test_with_both_limits_only_what_is_beyond_both_goes() -> None:
    sets = [candidate(days) for days in (1, 10, 20, 40)]
    assert removed(*sets, keep=1, older=15) == ["day20", "day40"]
    assert removed(*sets, keep=3, older=5) == ["day40"]
    assert removed(*sets, older=5) == ["day10", "day20", "day40"]


@pytest.mark.parametrize("older", [1, 15])
def test_the_last_good_set_stays_however_old(older: int) -> None:
    assert removed(candidate(400), older=older) == []
    assert removed(candidate(1, damaged=True), candidate(400), candidate(500), older=older) == ["day500"]


def test_damaged_sets_neither_count_nor_go() -> None:
    sets = [candidate(1, damaged=True), candidate(2, damaged=True), candidate(3), candidate(4), candidate(5)]
    assert removed(*sets, keep=2) == ["day5"]


def test_the_only_copy_of_a_key_stays() -> None:
    found = judge([candidate(1), candidate(2, gone=True), candidate(3)], now=NOW, keep=1)
    assert [each.name for each in found if each.removed] == ["day3"]
    assert "secretbox:key1:00" in found[1].reason


def test_the_newest_set_with_keys_stays_behind_newer_ones_without() -> None:
    sets = [candidate(1, sealed=False), candidate(2, sealed=False), candidate(3), candidate(4)]
    assert removed(*sets, keep=1) == ["day2", "day4"]
