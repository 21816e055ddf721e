"""`kubexm lab bundle`: its options, its errors and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kubexm.cli.lab_bundle import register
from kubexm.errors import UsageError
from kubexm.lab.bundle import builder as building
from kubexm.lab.bundle.contents import plan_contents
from tests.unit.lab.bundle.samples import Tools
from tests.unit.lab.bundle.test_builder import small_contents

RUN = CliRunner()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
    """`kubexm lab` with the bundle command, building small artefacts into a cache of its own."""
    made = typer.Typer()
    register(made)
    made.command("other")(lambda: None)
    monkeypatch.setenv("KUBEXM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "machine_arch", lambda: "amd64")
    monkeypatch.setattr(building, "Toolchain", Tools)
    asked: list[tuple[str, ...]] = []

    def planned(kubernetes: object, **options: object) -> object:
        contents = plan_contents(kubernetes, **options)  # type: ignore[arg-type]
        asked.append((*contents.kubernetes, *contents.parts))
        return small_contents("kubelet", "")

    monkeypatch.setattr(building, "plan_contents", planned)
    setattr(made, "asked", asked)  # noqa: B010
    return made


def asked(app: typer.Typer) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = getattr(app, "asked")  # noqa: B009
    return found


def test_the_last_line_is_where_the_bundle_is(app: typer.Typer) -> None:
    result = RUN.invoke(app, ["bundle", "--kubernetes", "1.34.4", "1.33.13", "--part", "helm"])
    assert result.exit_code == 0, result.output
    assert asked(app) == [("v1.34.4", "v1.33.13", "cluster", "helm")]
    assert (Path(result.stdout.splitlines()[-1]) / "manifest.json").is_file()
    assert "[1/5] kubelet: making it" in result.stderr


def test_the_default_is_one_version(app: typer.Typer) -> None:
    assert RUN.invoke(app, ["bundle"]).exit_code == 0
    assert asked(app) == [("v1.34.4", "cluster")]


def test_versions_may_be_repeated_options(app: typer.Typer) -> None:
    assert RUN.invoke(app, ["bundle", "--kubernetes", "1.33.13", "--kubernetes", "v1.34.4"]).exit_code == 0
    assert asked(app) == [("v1.34.4", "v1.33.13", "cluster")]


def test_a_copy_and_one_file(app: typer.Typer, tmp_path: Path) -> None:
    result = RUN.invoke(app, ["bundle", "--out", str(tmp_path / "copy")])
    assert result.stdout.strip() == str(tmp_path / "copy")
    assert (tmp_path / "copy" / "manifest.json").is_file()
    assert RUN.invoke(app, ["bundle", "--out", str(tmp_path / "b.tar.zst")]).exit_code == 0
    assert (tmp_path / "b.tar.zst").stat().st_size > 100


def test_events_as_json(app: typer.Typer) -> None:
    result = RUN.invoke(app, ["bundle", "-o", "json"])
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0] == {"event": "planned", "toMake": 5, "total": 5}
    assert "kubelet" in [event["artefact"] for event in events if event["event"] == "finished"]
    assert events[-1]["event"] == "bundle"


def test_the_list_builds_nothing(app: typer.Typer) -> None:
    result = RUN.invoke(app, ["bundle", "--list"])
    assert result.stdout.splitlines() == ["· kubelet", "· pause", "· layer", "· image", "· packages"]
    RUN.invoke(app, ["bundle", "--only", "pause"])
    assert "✓ pause  0 s" in RUN.invoke(app, ["bundle", "--list"]).stdout.splitlines()
    events = [json.loads(line) for line in RUN.invoke(app, ["bundle", "--list", "-o", "json"]).stdout.splitlines()]
    assert [event["made"] for event in events] == [False, True, False, False, False]


def test_one_artefact_alone(app: typer.Typer) -> None:
    result = RUN.invoke(app, ["bundle", "--only", "pause"])
    assert (Path(result.stdout.strip()) / "note").read_text() == "pause"


def test_pruning(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "cache" / "bundle" / "go").mkdir(parents=True)
    (tmp_path / "cache" / "bundle" / "go" / "x").write_bytes(bytes(100_000))
    result = RUN.invoke(app, ["bundle", "--prune"])
    assert result.exit_code == 0
    assert "KiB from the cache" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kubernetes", "1.34"], "'1.34' is not a Kubernetes version"),
        (["1.34.4", "nonsense"], "'nonsense' is not a Kubernetes version"),
        (["--kubernetes", "1.20.1"], "cannot be built for Kubernetes 1.20"),
        (["--part", "hlm"], "there is no part 'hlm'"),
        (["--only", "x"], "there is no artefact 'x'"),
        (["--only", "pause", "--out", "x"], "--out and --only exclude each other"),
    ],
)
def test_mistakes(app: typer.Typer, words: list[str], message: str) -> None:
    result = RUN.invoke(app, ["bundle", *words])
    assert isinstance(result.exception, UsageError)
    assert message in result.exception.message
