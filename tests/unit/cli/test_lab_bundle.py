"""`kubexm lab bundle`: its options, its errors and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kubexm import releases
from kubexm.cli.lab_bundle import register
from kubexm.errors import AssetError, UsageError
from kubexm.lab.bundle import builder as building
from kubexm.lab.bundle.contents import plan_contents
from kubexm.lab.bundle.upstream import Site
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
    monkeypatch.setattr("kubexm.lab.kubernetes.uses_cgroup_v1", lambda: False)
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
    result = RUN.invoke(app, ["bundle"])
    assert result.exit_code == 0
    assert asked(app) == [(releases.default_kubernetes(), "cluster")]
    assert "cgroup" not in result.stderr


def test_a_machine_with_cgroup_v1_gets_what_it_can_run_and_the_reason(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubexm.lab.kubernetes.uses_cgroup_v1", lambda: True)
    result = RUN.invoke(app, ["bundle"])
    assert asked(app) == [("v1.34.4", "cluster")]
    assert "Kubernetes v1.34.4: this machine uses cgroup v1, which Kubernetes 1.35 and later refuse" in result.stderr
    assert "cgroup" not in RUN.invoke(app, ["bundle", "--kubernetes", "1.36.4"]).stderr, "it was asked for"


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Download sites that answer, unless the test gives a reason why they do not or why the download fails."""
    state = {"sites": "", "download": ""}

    async def probe(named: Iterable[Site]) -> str:
        assert {site.host for site in named} >= {"dl.k8s.io", "registry.k8s.io"}
        return state["sites"]

    async def download(version: str, arch: str, cache: Path, *, say: Callable[[str], None]) -> Path:
        if state["download"]:
            raise AssetError(state["download"])
        say("kubeadm")
        place = cache / "bundles" / f"{version}-{arch}-from-upstream"
        place.mkdir(parents=True)
        return place

    monkeypatch.setattr("kubexm.lab.bundle.upstream.probe", probe)
    monkeypatch.setattr("kubexm.lab.bundle.upstream.download", download)
    return state


def test_a_bundle_is_downloaded_where_the_sites_answer(app: typer.Typer, upstream: dict[str, str]) -> None:
    result = RUN.invoke(app, ["bundle", "--from", "auto", "--kubernetes", "1.36.4"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].endswith("v1.34.4-amd64-from-upstream")
    notes = result.stderr.splitlines()
    assert notes[0].startswith("Trying dl.k8s.io, ")
    assert notes[0].endswith(", for 5 s at most")
    assert "Downloading Kubernetes v1.34.4" in notes[1]
    assert "about a minute" in notes[1]
    assert "making it" not in result.stderr


def test_it_is_built_where_they_do_not_and_how_long_that_takes_is_said_first(
    app: typer.Typer, upstream: dict[str, str]
) -> None:
    upstream["sites"] = "dl.k8s.io: no answer within 5 s"
    result = RUN.invoke(app, ["bundle", "--from", "auto"])
    assert result.exit_code == 0, result.output
    notes = result.stderr.splitlines()
    said = next(
        i
        for i, line in enumerate(notes)
        if "from source, because not every site can be used: dl.k8s.io: no answer" in line
    )
    assert "Artefacts left to build: 5 of 5. A build from nothing takes about 15 minutes" in notes[said + 1]
    assert said < next(i for i, line in enumerate(notes) if "[1/5] kubelet: making it" in line)
    again = RUN.invoke(app, ["bundle", "--from", "auto"])
    assert "Trying" not in again.stderr, "what is there is neither looked for nor built again"
    assert again.stdout == result.stdout


def test_a_download_that_fails_half_way_is_followed_by_a_build(app: typer.Typer, upstream: dict[str, str]) -> None:
    upstream["download"] = "registry.k8s.io: HTTP 500"
    result = RUN.invoke(app, ["bundle", "--from", "auto"])
    assert result.exit_code == 0, result.output
    assert "The download failed: registry.k8s.io: HTTP 500" in result.stderr
    assert "[1/5] kubelet: making it" in result.stderr
    failed = RUN.invoke(app, ["bundle", "--from", "upstream"])
    assert isinstance(failed.exception, AssetError), "there is no other way that was asked for"


def test_a_downloaded_bundle_is_whole(app: typer.Typer) -> None:
    for more in (["--only", "pause"], ["--list"], ["--part", "helm"]):
        result = RUN.invoke(app, ["bundle", "--from", "auto", *more])
        assert isinstance(result.exception, UsageError), more


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
