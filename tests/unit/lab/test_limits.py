"""Limits that labs share are raised once and put back once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.lab import limits
from kubexm.lab.limits import raise_limits, restore_limits


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the limits most have."""
    folder = tmp_path / "sys/fs/inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_instances").write_text("128\n")
    (folder / "max_user_watches").write_text("192493\n")
    monkeypatch.setattr(limits, "_SETTINGS", tmp_path / "sys")
    monkeypatch.setattr(limits, "_NOTE", tmp_path / "note.json")
    return folder


def test_a_limit_is_raised_and_put_back_and_one_that_is_enough_is_left(machine: Path, tmp_path: Path) -> None:
    raise_limits()
    assert (machine / "max_user_instances").read_text() == "8192\n"
    assert (machine / "max_user_watches").read_text() == "192493\n"
    restore_limits()
    assert (machine / "max_user_instances").read_text() == "128\n"
    assert (machine / "max_user_watches").read_text() == "192493\n"
    assert not (tmp_path / "note.json").exists()


def test_a_second_lab_does_not_take_the_first_one_s_limit_for_the_machine_s(machine: Path) -> None:
    raise_limits()
    (machine / "max_user_watches").write_text("8\n")  # so that there is something to raise again
    raise_limits()
    restore_limits()
    assert (machine / "max_user_instances").read_text() == "128\n"
    assert (machine / "max_user_watches").read_text() == "8\n"


def test_what_somebody_set_since_is_left(machine: Path) -> None:
    raise_limits()
    (machine / "max_user_instances").write_text("100000\n")
    restore_limits()
    assert (machine / "max_user_instances").read_text() == "100000\n"


def test_nothing_to_put_back_is_fine(machine: Path) -> None:
    restore_limits()
    assert (machine / "max_user_instances").read_text() == "128\n"
