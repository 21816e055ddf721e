"""One shelf for a plan that refers to two Kubernetes releases: from two bundles, from one, and from none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.assets import Bundle, pack
from kubexm.components.assets import AssetPresent, stage
from kubexm.errors import AssetError
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment
from kubexm.runtime import AssetShelf, ModuleContext, TaskContext
from kubexm.runtime.stock import Stock
from kubexm.task import FragmentBuilder, Task
from tests.unit.components.preflight.fleet import Fleet
from tests.unit.runtime.bundles import whole_bundle
from tests.unit.runtime.clusters import HEAD, LOCAL

OLD, NEW = "v1.33.13", "v1.34.4"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("releases")
    return {
        version: whole_bundle(place / version, kubernetes=version, packages=[version], salt=version.encode())
        for version in (OLD, NEW)
    }


def cluster(*sources: Path, more: str = "") -> Cluster:
    body = "".join(f"  {line}\n" for line in LOCAL.strip("\n").splitlines())
    listed = ", ".join(f"{{bundle: {source}}}" for source in sources)
    assets = f"  assets: {{sources: [{listed}]}}\n" if sources else ""
    text = f"{HEAD}{body}  kubernetes: {{version: {NEW}}}\n{assets}{more}"
    return config.loads(text, name="t.yaml").cluster


async def test_two_bundles_serve_two_releases_in_one_plan(bundles: dict[str, Path], tmp_path: Path) -> None:
    stock = Stock(cluster(*bundles.values()), tmp_path, cache=tmp_path / "cache")
    shelf = await stock.fill(["amd64"], unpack=True, releases=[OLD])
    assert shelf.releases == (OLD, NEW)
    assert shelf.kubernetes == NEW
    for version in (OLD, NEW):
        seen = shelf.release(version)
        file = seen.file("kubelet", "amd64")
        assert file.version == version
        assert seen.local(file.path, "amd64", sha256=file.sha256).read_bytes().endswith(version.encode())
        assert shelf.local(file.path, "amd64", sha256=file.sha256).is_relative_to(bundles[version])
        assert seen.image("kube-apiserver").reference.endswith(version)
        archive, _ = await seen.archive(["kube-apiserver"], "amd64")
        assert archive.is_file()
    shelf.refuse_others([shelf.release(version).file("etcd", "amd64").sha256 for version in (OLD, NEW)])
    shelf.close()


async def test_packed_bundles_are_unpacked_once_each(bundles: dict[str, Path], tmp_path: Path) -> None:
    packed = []
    for version, directory in bundles.items():
        packed.append(tmp_path / f"{version}.tar.zst")
        pack(directory, packed[-1])
    said: list[str] = []
    stock = Stock(cluster(*packed), tmp_path, cache=tmp_path / "cache", say=said.append)
    shelf = await stock.fill(["amd64"], unpack=True, releases=[OLD, NEW, OLD])
    assert [line.partition(" ")[0] for line in said] == ["unpacking", "unpacking"]
    assert shelf.release(OLD).file("kubelet", "amd64").version == OLD
    shelf.close()


async def test_a_release_that_no_bundle_holds_is_named(bundles: dict[str, Path], tmp_path: Path) -> None:
    stock = Stock(cluster(bundles[NEW]), tmp_path, cache=tmp_path / "cache")
    with pytest.raises(AssetError, match=f"no bundle holds Kubernetes {OLD} for amd64"):
        await stock.fill(["amd64"], unpack=True, releases=[OLD])


def test_offline_both_are_used_if_they_are_at_hand(bundles: dict[str, Path], tmp_path: Path) -> None:
    both = Stock(cluster(bundles[NEW], bundles[OLD]), tmp_path).at_hand(["amd64"], releases=[OLD])
    assert both.release(OLD).file("kubelet", "amd64").sha256
    assert both.release(OLD).file("kubelet", "amd64").sha256 != both.file("kubelet", "amd64").sha256
    both.close()
    one = Stock(cluster(bundles[NEW]), tmp_path).at_hand(["amd64"], releases=[OLD])
    assert one.file("kubelet", "amd64").sha256
    assert one.release(OLD).file("kubelet", "amd64").sha256 == ""
    one.close()


def test_the_file_asks_for_versions_of_its_own_release_only(bundles: dict[str, Path]) -> None:
    shelf = AssetShelf(cluster(more="  etcd: {version: v3.6.14}\n"))
    assert shelf.file("etcd", "amd64").version == "v3.6.14"
    assert shelf.release(OLD).file("etcd", "amd64").version == "v3.5.24"
    assert shelf.release(OLD, versions={"etcd": "v3.5.33"}).file("etcd", "amd64").version == "v3.5.33"
    assert shelf.release(NEW) is shelf


class Both(Module):
    """Stages the kubelet of two releases."""

    def tasks(self, ctx: ModuleContext) -> tuple[Task, ...]:
        class StageBoth(Task):
            def plan(self, ctx: TaskContext) -> ExecutionFragment:
                g = FragmentBuilder("test.stage")
                for version in (OLD, NEW):
                    stage(g, ctx, "kubelet", on=ctx.hosts(), node=version.replace(".", "-"), release=version)
                return g.build()

        return (StageBoth(),)


def test_a_plan_holds_the_sums_of_both(bundles: dict[str, Path], tmp_path: Path) -> None:
    from dataclasses import replace

    context = Fleet().context(tmp_path)
    shelf = AssetShelf(context.cluster, {"amd64": [Bundle.open(bundles[NEW]), Bundle.open(bundles[OLD])]})
    graph = link(Both()).graph(replace(context, assets=shelf).pipeline_context(), name="both")
    steps = [node.step for node in graph.nodes.values()]
    assert all(isinstance(step, AssetPresent) for step in steps)
    found = {step.version: step for step in steps if isinstance(step, AssetPresent)}
    assert set(found) == {OLD, NEW}
    assert found[OLD].sums != found[NEW].sums
    assert found[OLD].release == OLD
    assert str(found[OLD].staged) == f"/opt/kubexm/programs/kubelet/{OLD}"
    shelf.refuse_others(digest for step in found.values() for digest in step.sums_needed())
    shelf.close()
