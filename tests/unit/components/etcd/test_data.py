"""Whose data a directory holds, read from the head of a real log."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kubexm.components.etcd.data import DataState, WalIds, cluster_id, member_id, parse_state, state_script

# The head of a log that etcd 3.6.5 wrote: one member at http://127.0.0.1:32380, with the token `tok`.
HEAD = (
    "040000000000008408041000000000002000000000000000080110f888b7e5011a16089bb8fee7969c8dbdca0110cea8"
    "8ed58fe1d1f4cc010e00000000000082080510c0f1c0cd021a040800100000007000000000000000080210acc5f0d209"
    "1a66080110011801225e08001000189bb8fee7969c8dbdca01224d7b226964223a313435393030333230383536323131"
    "32303032372c227065657255524c7322"
)
URL = "http://127.0.0.1:32380"


def look(directory: Path) -> DataState:
    result = subprocess.run(["sh", "-c", state_script(str(directory))], capture_output=True, text=True, check=True)
    assert result.stdout.count("\n") == 1
    return parse_state(result.stdout.rstrip("\n"))


def log(directory: Path, content: bytes) -> None:
    wal = directory / "member" / "wal"
    wal.mkdir(parents=True)
    (wal / "0.tmp").write_bytes(b"")
    (wal / "0000000000000000-0000000000000000.wal").write_bytes(content)


def test_the_ids_of_a_log_are_those_etcd_computes(tmp_path: Path) -> None:
    log(tmp_path, bytes.fromhex(HEAD) + bytes(4096))
    assert look(tmp_path) == DataState(ids=WalIds(member_id([URL], "tok"), cluster_id([URL], "tok")))


def test_other_members_or_another_token_make_another_cluster() -> None:
    ours = cluster_id([URL], "tok")
    assert ours == cluster_id([URL], "tok")
    assert len({ours, cluster_id([URL], "tik"), cluster_id([URL, "http://127.0.0.1:1"], "tok")}) == 3
    assert cluster_id(["a", "b"], "t") == cluster_id(["b", "a"], "t")


def test_nothing_there_is_empty(tmp_path: Path) -> None:
    assert look(tmp_path / "absent").is_empty
    assert look(tmp_path).is_empty
    (tmp_path / "lost+found").mkdir()
    assert look(tmp_path).is_empty, "what a disk of its own has"


def test_what_is_no_data_of_etcd_is_named(tmp_path: Path) -> None:
    (tmp_path / "family photos").mkdir()
    assert look(tmp_path) == DataState(stranger="family photos")


def test_what_an_etcd_leaves_that_never_was_a_member_is_nothing(tmp_path: Path) -> None:
    snap = tmp_path / "member" / "snap"
    snap.mkdir(parents=True)
    assert look(tmp_path).is_empty
    (snap / "db").write_bytes(b"x" * 20480)
    os.truncate(snap / "db", 16_801_792)
    assert look(tmp_path).is_empty
    (snap / "db").write_bytes(b"x" * 1_000_000)
    assert look(tmp_path) == DataState(stranger="member"), "a log may be elsewhere"
    (snap / "db").write_bytes(b"x" * 20480)
    (snap / "0000000000000001-0000000000000001.snap").write_bytes(b"x")
    assert not look(tmp_path).is_empty
    (snap / "0000000000000001-0000000000000001.snap").unlink()
    (tmp_path / "photos").mkdir()
    assert not look(tmp_path).is_empty


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"\xff" * 64, bytes.fromhex("0800000000000000") + b"\x0b" * 8])
def test_a_log_that_cannot_be_read_is_not_taken_for_ours(tmp_path: Path, content: bytes) -> None:
    log(tmp_path, content)
    state = look(tmp_path)
    assert state.ids is None
    assert not state.is_empty
