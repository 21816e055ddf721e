"""Pipelines that install: their files are at hand and right before anything is planned or done."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from kubexm.assets.catalog import Install
from kubexm.components.assets import AssetPresent
from kubexm.errors import AssetError
from kubexm.pipeline import PIPELINES, Kind, Option, Pipeline, failure_policy
from kubexm.plan import ExecutionGraph, RunSpec, RunStatus
from kubexm.runtime import PipelineContext
from kubexm.service import ClusterService
from kubexm.step import FilePresent
from kubexm.task import FragmentBuilder
from tests.unit.runtime.bundles import KUBERNETES, content_of, whole_bundle
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root


class Installing(Pipeline):
    """Puts kubectl on the first host, in a directory of the test."""

    name = "install"
    options = (Option(name="into", kind=Kind.TEXT, required=True, help="Where it goes."),)
    needs_assets = True

    def __init__(self, *, into: str) -> None:
        self.into = into

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        task, g = ctx.for_module().for_task(), FragmentBuilder("test.install")
        file = task.assets.file("kubectl", "amd64")
        step = AssetPresent(
            name="kubectl",
            version=file.version,
            install=Install(to=PurePosixPath(self.into) / "kubectl"),
            sums=(("amd64", file.sha256),) if file.sha256 else (),
        )
        g.add("kubectl", step, on=ctx.hosts()[:1])
        g.add("note", FilePresent(path=PurePosixPath(self.into) / "note", content="here\n"), on=ctx.hosts()[:1])
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


@pytest.fixture
def file(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cluster file, which names the bundle beside it."""
    monkeypatch.setenv("KUBEXM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PIPELINES, "install", f"{__name__}:Installing")
    with cluster.open("a") as out:
        out.write(f"  kubernetes: {{version: {KUBERNETES}}}\n  assets: {{sources: [{{bundle: ./bundle}}]}}\n")
    return cluster


async def test_what_is_installed_comes_from_the_bundle(file: Path, root: Path) -> None:
    whole_bundle(file.parent / "bundle")
    result = await ClusterService().run(file, RunSpec.of("install", into=str(root)))
    assert result.status is RunStatus.SUCCEEDED
    assert (root / "kubectl").read_bytes() == content_of("kubectl")
    again = await ClusterService().run(file, RunSpec.of("install", into=str(root)))
    assert not again.changed


@pytest.mark.parametrize("wrong", [{"kubernetes": "v1.33.13"}, {"arch": "arm64"}, None])
async def test_a_wrong_bundle_is_refused_before_anything_is_done(
    file: Path, root: Path, wrong: dict[str, str] | None
) -> None:
    if wrong is not None:
        whole_bundle(file.parent / "bundle", **wrong)  # type: ignore[arg-type]
    with pytest.raises(AssetError):
        await ClusterService().run(file, RunSpec.of("install", into=str(root)))
    assert list(root.iterdir()) == []
    assert ClusterService().runs(file) == [], "it never became a run"


async def test_a_part_that_installs_nothing_needs_no_bundle(file: Path, root: Path, tmp_path: Path) -> None:
    service = ClusterService()
    planned = await service.plan(file, RunSpec.of("install", only=["test.install.note"], into=str(root)))
    planned.save(tmp_path / "plan.kxp")
    result = await service.run(file, RunSpec.of("install", only=["test.install.note"], into=str(root)))
    assert result.status is RunStatus.SUCCEEDED
    assert [path.name for path in root.iterdir()] == ["note"]
    assert (await service.resume(service.run_files(result.run, file).path)).status is RunStatus.SUCCEEDED
    assert (await service.apply(tmp_path / "plan.kxp")).status is RunStatus.SUCCEEDED
    with pytest.raises(AssetError, match="there is no bundle"):
        await service.run(file, RunSpec.of("install", only=["test.install.kubectl"], into=str(root)))


async def test_a_plan_holds_sums_and_no_places_and_is_carried_out_with_that_bundle_only(
    file: Path, root: Path, tmp_path: Path
) -> None:
    bundle = whole_bundle(file.parent / "bundle")
    planned = await ClusterService().plan(file, RunSpec.of("install", into=str(root)))
    planned.save(tmp_path / "plan.kxp")
    text = json.dumps(json.loads((tmp_path / "plan.kxp").read_text())["graph"])
    assert "sums" in text
    assert str(bundle) not in text
    bundle.rename(file.parent / "moved")
    file.write_text(file.read_text().replace("./bundle", "./moved"))
    assert (await ClusterService().apply(tmp_path / "plan.kxp")).status is RunStatus.SUCCEEDED
    other = whole_bundle(tmp_path / "other", without=["kubectl"])
    file.write_text(file.read_text().replace("./moved", str(other)))
    with pytest.raises(AssetError):
        await ClusterService().apply(tmp_path / "plan.kxp")


async def test_offline_a_plan_needs_no_bundle(file: Path, root: Path) -> None:
    planned = await ClusterService().plan(file, RunSpec.of("install", into=str(root)), offline=True)
    step = planned.graph.nodes["test.install.kubectl"].step
    assert isinstance(step, AssetPresent)
    assert (step.version, step.sums) == (KUBERNETES, ())
