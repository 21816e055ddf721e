"""The record of a lab on disk."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kubexm.errors import LabError, UsageError
from kubexm.lab.shape import Wanted, first_record
from kubexm.lab.state import check_name, read_record, unfinished_name, write_atomically, write_record

_RECORD = first_record("lab", Wanted(hosts=2), prefix="kx0001", subnet=IPv4Network("10.210.3.0/24"))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_record(tmp_path, _RECORD)
    assert read_record(tmp_path) == _RECORD
    assert (tmp_path / "lab.json").stat().st_mode & 0o777 == 0o600


def test_no_record_is_none(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    assert read_record(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged"),
        ('{"format": 99}', "was written by another version of kubexm"),
        ("[]", "was written by another version of kubexm"),
        ('{"format": 1}', "is damaged"),
        ('{"format": 1, "subnet": "x", "hosts": []}', "is damaged"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "lab.json").write_text(content)
    with pytest.raises(LabError) as caught:
        read_record(tmp_path)
    assert str(tmp_path / "lab.json") in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint


def test_a_cable_is_noted_for_one_host_only() -> None:
    cut = _RECORD.with_cut("n2", cut=True)
    assert [host.cut for host in cut.hosts] == [False, True]
    assert cut.with_cut("n2", cut=False) == _RECORD


@pytest.mark.parametrize("name", ["lab", "a", "my-lab-2", "0", "a" * 40])
def test_names_a_lab_may_have(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "Lab", "-a", "a-", "a/b", "..", "a b", "ä", "a" * 41, "a\n", "lab.json"])
def test_names_a_lab_may_not_have(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a lab"):
        check_name(name)


def test_a_write_that_was_cut_short_before_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "file"
    unfinished_name(file).write_text("half of wh")
    write_atomically(file, "whole", mode=0o640)
    assert file.read_text() == "whole"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    file = tmp_path / "file"
    unfinished_name(file).symlink_to(victim)
    write_atomically(file, "new")
    assert victim.read_text() == "precious"
    assert file.read_text() == "new"
    assert not file.is_symlink()
