"""The directories of a cluster: where they are, that nobody else can look, names that are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kubexm.errors import KubexmError
from kubexm.runtime import WorkDir, new_run_id


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_where_the_file_says_or_beside_it(tmp_path: Path) -> None:
    assert WorkDir.of("prod", None, tmp_path).path == tmp_path / ".kubexm" / "prod"
    assert WorkDir.of("prod", "state", tmp_path).path == tmp_path / "state" / "prod"
    assert WorkDir.of("prod", "/var/lib/x", tmp_path).path == Path("/var/lib/x/prod")
    assert WorkDir.of("prod", "~/x", tmp_path).path == Path.home() / "x" / "prod"


def test_everything_in_it_is_private(tmp_path: Path) -> None:
    work = WorkDir.of("prod", None, tmp_path)
    before = os.umask(0)
    try:
        work.prepare()
        work.host("n1")
    finally:
        os.umask(before)
    assert {mode(path) for path in (work.path, work.runs, work.secrets, work.hosts, work.host("n1"))} == {0o700}


def test_one_that_was_opened_up_is_closed_again(tmp_path: Path) -> None:
    work = WorkDir(tmp_path / "prod")
    work.path.mkdir(mode=0o755)
    work.prepare()
    work.prepare()
    assert mode(work.path) == 0o700


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(KubexmError, match="the work directory cannot be made") as caught:
        WorkDir(tmp_path / "file" / "prod").prepare()
    assert "workDir" in caught.value.hint


def test_the_clusters_uid_is_empty_until_there_is_one(tmp_path: Path) -> None:
    work = WorkDir(tmp_path)
    assert work.cluster_uid == ""
    (tmp_path / "uid").write_text("6e8bc430\n")
    assert work.cluster_uid == "6e8bc430"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden"])
def test_the_name_of_a_run_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(KubexmError, match="is not the name of a run"):
        WorkDir(tmp_path).run(name)


def test_runs_are_named_by_time_and_apart(tmp_path: Path) -> None:
    names = {new_run_id() for _ in range(20)}
    assert len(names) > 1
    assert all(WorkDir(tmp_path).run(name).name == name for name in names)
