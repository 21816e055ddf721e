"""Deleting asks for the cluster's name, and goes no further without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubexm.cli import running, terminal
from kubexm.cli.exits import ExitCode
from kubexm.cli.main import main
from kubexm.plan import RunSpec
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return cluster_file(tmp_path, CLUSTER)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would have been run."""
    runs: list[dict[str, Any]] = []

    def run(ctx: object, spec: RunSpec, file: Path, **options: Any) -> None:
        runs.append({"spec": spec, "file": file})

    monkeypatch.setattr(running, "run_spec", run)
    return runs


def typed(monkeypatch: pytest.MonkeyPatch, answer: str | None) -> None:
    monkeypatch.setattr(terminal, "has_terminal", lambda: answer is not None)
    monkeypatch.setattr(terminal, "ask_line", lambda prompt: answer)


def delete(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["delete", "cluster", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def name_of(file: Path) -> str:
    from kubexm import config

    return config.load(file).cluster.name


def test_the_name_is_enough(
    file: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, name_of(file))
    assert delete("-f", str(file), "--keep-data") == ExitCode.DONE
    (run,) = started
    assert run["spec"] == RunSpec("delete", {"keep_data": True})
    assert "It keeps etcd's data and volumes of pods." in capsys.readouterr().err


def test_another_word_is_not(
    file: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "yes")
    assert delete("-f", str(file)) == ExitCode.USAGE
    assert started == []
    shown = capsys.readouterr().err
    assert "the cluster and all data in it" in shown
    assert "'yes' is not the name of the cluster: nothing was changed" in shown


def test_with_nobody_to_ask_it_takes_an_option(
    file: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, None)
    assert delete("-f", str(file)) == ExitCode.USAGE
    assert "give --yes if it is meant" in capsys.readouterr().err
    assert delete("-f", str(file), "--yes", "--keep-runtime") == ExitCode.DONE
    assert [run["spec"] for run in started] == [RunSpec("delete", {"keep_runtime": True})]


def test_looking_needs_no_name(file: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, None)
    assert delete("-f", str(file), "--dry-run") == ExitCode.DONE
    assert started[0]["spec"].dry_run
