"""A journal is read back whole, followed while it grows, believed up to a torn end and not beyond any other damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.errors import JournalError
from kubexm.events import Event, EventKind
from kubexm.store import JournalReader, StepLog, read_journal, step_logs, to_line

EVENTS = [
    Event(1, 1.0, EventKind.RUN_STARTED, data={"units": 2}),
    Event(2, 2.0, EventKind.UNIT_RUNNING, "m.t.n", "a", {"attempt": 1}),
    Event(3, 3.0, EventKind.UNIT_DONE, "m.t.n", "a", {"state": "succeeded", "stdout": "viele Grüße\n"}),
    Event(4, 4.0, EventKind.RUN_ENDED, data={"status": "succeeded"}),
]
BYTES = b"".join(map(to_line, EVENTS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_what_was_written_is_read(path: Path) -> None:
    path.write_bytes(BYTES)
    assert read_journal(path) == EVENTS


@given(cut=st.integers(0, len(BYTES)))
def test_a_journal_cut_anywhere_gives_its_whole_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "journal"
    path.write_bytes(BYTES[:cut])
    reader = JournalReader(path)
    assert list(reader.more()) == EVENTS[: BYTES[:cut].count(b"\n")]
    with path.open("ab") as file:
        file.write(BYTES[cut:])
    assert list(reader.more()) == EVENTS[BYTES[:cut].count(b"\n") :], "a follower goes on where it was"
    assert list(reader.more()) == []


@given(place=st.integers(0, len(BYTES) - 1), flip=st.integers(1, 255))
def test_damage_is_seen_and_its_place_is_named(tmp_path_factory: pytest.TempPathFactory, place: int, flip: int) -> None:
    path = tmp_path_factory.mktemp("bad") / "journal"
    broken = bytearray(BYTES)
    broken[place] ^= flip
    path.write_bytes(broken)
    if place == len(BYTES) - 1:
        assert read_journal(path) == EVENTS[:-1], "without its newline the last line is a torn one"
        return
    with pytest.raises(JournalError, match="damaged") as caught:
        read_journal(path)
    assert caught.value.message.startswith(f"{path}:{broken[:place].count(10) + 1}: ")
    assert "always safe" in caught.value.hint


def test_a_follower_may_start_after_an_event(path: Path) -> None:
    path.write_bytes(BYTES)
    assert [event.seq for event in JournalReader(path, after=2).more()] == [3, 4]


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(JournalError, match="journal: No such file"):
        read_journal(path)


def done(seq: int, node: str, host: str, **data: object) -> Event:
    return Event(seq, float(seq), EventKind.UNIT_DONE, node, host, data)


def test_step_logs_are_the_last_word_on_each_unit_in_order() -> None:
    events = [
        done(1, "m.t.a", "x", state="failed", error={"message": "no", "hint": "try", "stderr": "err"}, started=0.5),
        done(2, "m.t.b", "x", state="succeeded", stdout="out", stderr="warn"),
        Event(3, 3.0, EventKind.RUN_RESUMED),
        done(4, "m.t.a", "x", state="succeeded"),
    ]
    assert step_logs(events[:2]) == [
        StepLog(
            seq=1, node="m.t.a", host="x", state="failed", error="no", hint="try", stderr="err", started=0.5, ended=1.0
        ),
        StepLog(seq=2, node="m.t.b", host="x", state="succeeded", stdout="out", stderr="warn", ended=2.0),
    ]
    assert [(log.seq, log.state) for log in step_logs(events)] == [(2, "succeeded"), (4, "succeeded")]
