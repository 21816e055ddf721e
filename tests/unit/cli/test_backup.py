"""`kubexm backup` on this machine: keys are made, sets listed, verified and pruned, and errors say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubexm import config
from kubexm.cli.exits import ExitCode
from kubexm.cli.main import main
from kubexm.components.backup.age import new_identity, parse_identity, recipient_of
from kubexm.errors import UsageError
from kubexm.pipeline import pipeline_named, refuse_local_options
from kubexm.plan import RunSpec
from tests.unit.components.backup.made import IDENTITY, UID, written
from tests.unit.components.backup.test_sets import authority
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER

OLD, NEW = "demo-20250101-100000-aaaa", "demo-20260101-100000-abcd"


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["backup", *map(str, words)])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def ca() -> bytes:
    return authority()


@pytest.fixture
def place(tmp_path: Path, ca: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster file whose work directory has an old and a new set; the directory of sets."""
    monkeypatch.chdir(tmp_path)
    work = tmp_path / ".kubexm" / config.load(cluster_file(tmp_path, CLUSTER)).cluster.name
    work.mkdir(parents=True)
    (work / "uid").write_text(UID)
    written(work / "backups", ca, name=OLD, taken="2025-01-01T10:00:00Z")
    written(work / "backups", ca, name=NEW)
    return work / "backups"


def test_a_key_pair_is_made_private_and_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "backup.key"
    assert run("keygen", path) == 0
    said = capsys.readouterr()
    assert path.stat().st_mode & 0o777 == 0o600
    identity = parse_identity(path.read_text())
    assert said.out.strip() == recipient_of(identity)
    assert identity.reveal() not in said.out + said.err
    before = path.read_text()
    assert run("keygen", path) == ExitCode.USAGE
    assert path.read_text() == before


def test_sets_are_listed_with_what_is_wrong_with_them(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / OLD / "manifest.json").write_text("{")
    (place / ".partial-demo-x").mkdir()
    assert run("list", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["set"] for each in found] == [OLD, NEW]
    assert "not valid JSON" in found[0]["status"]
    assert (found[1]["status"], found[1]["keys"], found[1]["revision"]) == ("complete", "sealed", 1234)


def test_verify_says_good_or_what_is_damaged(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    key.write_text(IDENTITY.reveal())
    assert run("verify", NEW) == 0
    assert "sealed part intact but not opened" in capsys.readouterr().out
    assert run("verify", place / NEW, "--identity", key) == 0
    assert "sealed part opened and complete" in capsys.readouterr().out
    key.write_text(new_identity().reveal())
    assert run("verify", NEW, "--identity", key) == ExitCode.FAILED
    said = capsys.readouterr()
    assert "it is sealed for age1" in said.err
    assert "AGE-SECRET" not in said.err
    with (place / NEW / "snapshot.db").open("r+b") as stream:
        stream.write(b"x")
    assert run("verify", NEW) == ExitCode.FAILED
    assert "snapshot.db: its sha256 is" in capsys.readouterr().err
    assert run("verify", "absent") == ExitCode.FAILED
    assert "backup list" in capsys.readouterr().err


def test_a_set_of_another_cluster_is_refused_where_the_cluster_is_known(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.parent / "uid").write_text("another")
    assert run("verify", NEW) == ExitCode.FAILED
    assert "of another cluster" in capsys.readouterr().err
    assert run("prune", "--keep", "1") == 0
    assert {each.name for each in place.iterdir()} == {OLD, NEW}


def test_prune_removes_what_is_old_and_never_the_last_good_set(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prune") == ExitCode.USAGE
    assert run("prune", "--older-than", "soon") == ExitCode.USAGE
    assert run("prune", "--older-than", "1d", "--dry-run") == 0
    assert "would be removed" in capsys.readouterr().out
    assert {each.name for each in place.iterdir()} == {OLD, NEW}
    assert run("prune", "--older-than", "1d", "-o", "json") == 0
    assert [each["status"] for each in json.loads(capsys.readouterr().out)] == ["kept", "removed"]
    assert [each.name for each in place.iterdir()] == [NEW]
    assert run("prune", "--older-than", "1d") == 0
    assert [each.name for each in place.iterdir()] == [NEW]


def test_prune_keeps_what_may_hold_the_only_copy_of_a_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = place.parent / "secrets"
    secrets.mkdir()
    (secrets / "encryption-config").write_text("resources: []\n")
    assert run("prune", "--keep", "1") == 0
    assert "only copy of encryption key secretbox:key1:" in capsys.readouterr().out
    assert {each.name for each in place.iterdir()} == {OLD, NEW}


def test_a_server_takes_no_directory_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="--to names a place"):
        refuse_local_options(RunSpec.of("backup", to="/etc"))
    refuse_local_options(RunSpec.of("backup", recipient=("age1x",)))
    assert pipeline_named("backup", to="/srv/backups").changes
