"""Sizes, and what is mounted where."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.errors import LabError, UsageError
from kubexm.lab import disk
from kubexm.lab.disk import Disk, mounts_below, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("20G", 20 * 2**30), ("512m", 512 * 2**20), ("1 TiB", 2**40), ("7KB", 7 * 2**10)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "1.5G", "20X", "20GG"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


def test_only_what_lies_in_the_folder_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "20 1 0:1 / / rw - ext4 /dev/vda rw\n"
        "21 20 7:0 / /labs/lab/disk rw shared:1 - ext4 /dev/loop0 rw\n"
        "22 20 0:2 / /labs/lab/with\\040space rw - overlay kubexm-lab rw\n"
        "23 20 0:3 / /labs/lab2 rw - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(disk, "_MOUNTS", table)
    assert mounts_below(Path("/labs/lab")) == [Path("/labs/lab/disk"), Path("/labs/lab/with space")]


def test_a_disk_remembers_the_image_it_was_settled_over(tmp_path: Path) -> None:
    mine = Disk(folder=tmp_path)
    assert mine.layers is None
    mine.settle([Path("/top"), Path("/base")])
    assert mine.layers == (Path("/top"), Path("/base"))


def test_an_image_that_was_deleted_is_said(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is gone"):
        Disk(folder=tmp_path).mount([tmp_path / "deleted"])


def test_a_disk_that_is_not_mounted_cannot_be_filled(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is not mounted"):
        Disk(folder=tmp_path).fill()
    assert list(tmp_path.iterdir()) == []
    assert Disk(folder=tmp_path).usage() is None
