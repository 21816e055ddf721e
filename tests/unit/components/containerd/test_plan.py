"""The plan of a runtime and its images: what waits for what, who gets what, new and serving clusters."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.assets import Bundle
from kubexm.components.assets import AssetPresent
from kubexm.components.containerd import Containerd
from kubexm.components.containerd.steps import RegistriesConfigured
from kubexm.components.host_files import FilesPresent
from kubexm.components.images import Images
from kubexm.components.images.steps import ImagesImported, ImagesPulled
from kubexm.components.milestones import IMAGES_PRESENT, RUNTIME_READY
from kubexm.module import link
from kubexm.plan import ExecutionGraph
from kubexm.plan.render import to_tree
from kubexm.runner.facts import Security
from kubexm.runtime import AssetShelf, Context
from kubexm.step import ServiceRunning
from tests.unit.components.around import SINGLE, cluster, context_of, marked
from tests.unit.runtime.bundles import whole_bundle

GOLDEN = Path(__file__).parent / "golden"
NODES = ("cp1", "cp2", "cp3", "w1", "w2")


def graph_of(context: Context) -> ExecutionGraph:
    return link(Containerd, Images).graph(context.pipeline_context(), name="test")


def plan(tmp_path: Path, text: str = "", **facts: Any) -> ExecutionGraph:
    return graph_of(context_of(text or cluster(), tmp_path, facts))


def upstream(graph: ExecutionGraph, name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        node = graph.nodes[waiting.pop()]
        fresh = {*node.after, *node.after_same_host} - found
        found |= fresh
        waiting += fresh
    return found


@pytest.mark.parametrize("form", ["new", "serving"])
def test_golden_plan(form: str, tmp_path: Path) -> None:
    marks = {"cp1": marked("etcd", "controlPlane"), "cp2": marked("controlPlane"), "w1": marked("worker")}
    facts: dict[str, Any] = {name: {"marker": mark} for name, mark in marks.items()} if form == "serving" else {}
    text = f"{to_tree(plan(tmp_path, **facts))}\n"
    path = GOLDEN / f"plan-{form}.txt"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"


def test_sending_waits_for_nothing_and_importing_for_containerd_alone(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    assert upstream(graph, "images.bring.send-worker") == set()
    assert upstream(graph, "images.bring.import-worker") == {
        "images.bring.send-worker",
        "containerd.start.service",
        "containerd.install.settings",
        "containerd.install.containerd",
        "containerd.install.containerd-active",
        "containerd.install.runc",
        "containerd.install.runc-active",
    }
    assert not graph.nodes["images.bring.import-worker"].after, "no host waits for another"
    assert {"containerd.install.crictl", "containerd.install.registries"} <= upstream(graph, "containerd.start.answers")


def test_every_node_has_its_milestones_once(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    for milestone in (RUNTIME_READY, IMAGES_PRESENT):
        hosts = [host for node in graph.nodes.values() if milestone in node.provides for host in node.hosts]
        assert sorted(hosts) == sorted(NODES)


def test_where_it_serves_a_cluster_it_is_restarted_in_turn(tmp_path: Path) -> None:
    marks: dict[str, Any] = {name: {"marker": marked("controlPlane")} for name in ("cp1", "cp2", "cp3")}
    graph = plan(tmp_path, **marks)
    starts = [node for node in graph.nodes if node.startswith("containerd.start.service")]
    assert starts == ["containerd.start.service", *(f"containerd.start.service.cp{n}" for n in (1, 2, 3))]
    assert graph.nodes["containerd.start.service"].hosts == ("w1", "w2"), "new nodes wait for nobody"
    assert "containerd.start.answers.cp1" in upstream(graph, "containerd.start.service.cp2")


def test_etcd_alone_gets_no_runtime(tmp_path: Path) -> None:
    text = (
        cluster()
        .replace('etcd: ["cp[1:3]"]', "etcd: [e1]")
        .replace("hosts:\n", "hosts:\n    - {name: e1, address: 10.0.0.9}\n")
    )
    graph = plan(tmp_path, text)
    assert all("e1" not in node.hosts for node in graph.nodes.values())


def test_facts_decide_about_oom_scores_and_mirrors_touch_no_input_of_the_service(tmp_path: Path) -> None:
    mirrors = cluster("registry: {mirrors: {docker.io: ['https://m.example.com']}}", hosts=SINGLE)
    graph = plan(tmp_path, mirrors, n1={"security": Security(capabilities=("CAP_SYS_ADMIN",))})
    settings = graph.nodes["containerd.install.settings"].step
    assert isinstance(settings, FilesPresent)
    assert any("restrict_oom_score_adj = true" in str(file.content) for file in settings.files)
    plain = plan(tmp_path, cluster(hosts=SINGLE), n1={"security": Security(capabilities=("CAP_SYS_ADMIN",))})
    changed = {name for name in graph.nodes if graph.nodes[name].step != plain.nodes[name].step}
    assert changed == {"containerd.install.registries"}
    service = graph.nodes["containerd.start.service"].step
    assert isinstance(service, ServiceRunning)
    assert [str(path) for path in service.inputs] == ["/etc/containerd/config.toml", "/usr/local/bin/containerd"]
    registries = graph.nodes["containerd.install.registries"].step
    assert isinstance(registries, RegistriesConfigured)
    assert len(registries.files) == 1


def with_bundles(context: Context, **bundles: Path) -> Context:
    opened = {arch: Bundle.open(place) for arch, place in bundles.items()}
    return replace(context, assets=AssetShelf(context.cluster, opened))


def test_each_architecture_gets_its_own_sums_and_images(tmp_path: Path) -> None:
    context = with_bundles(
        context_of(cluster("kubernetes: {version: v1.34.4}"), tmp_path, {"w2": {"arch": "arm64"}}),
        amd64=whole_bundle(tmp_path / "amd"),
        arm64=whole_bundle(tmp_path / "arm", arch="arm64"),
    )
    graph = graph_of(context)
    runc = graph.nodes["containerd.install.runc"].step
    assert isinstance(runc, AssetPresent)
    assert [arch for arch, _ in runc.sums] == ["amd64", "arm64"]
    assert len({sha256 for _, sha256 in runc.sums}) == 2
    assert graph.nodes["images.bring.import-worker"].hosts == ("w1",)
    assert graph.nodes["images.bring.import-worker-2"].hosts == ("w2",)
    one, two = (graph.nodes[f"images.bring.import-{name}"].step for name in ("worker", "worker-2"))
    assert isinstance(one, ImagesImported)
    assert isinstance(two, ImagesImported)
    assert {image.digest for image in one.images}.isdisjoint(image.digest for image in two.images)
    assert "apiserver" not in str([image.reference for image in one.images])


def test_images_no_bundle_has_are_pulled(tmp_path: Path) -> None:
    text = cluster("kubernetes: {version: v1.34.4}\nregistry: {private: r.example.com/k8s}", hosts=SINGLE)
    context = with_bundles(context_of(text, tmp_path), amd64=whole_bundle(tmp_path / "files", images=False))
    graph = graph_of(context)
    pull = graph.nodes["images.bring.pull-control-plane"]
    assert isinstance(pull.step, ImagesPulled)
    assert pull.step.images[0].reference.startswith("r.example.com/k8s/")
    assert IMAGES_PRESENT in pull.provides
    assert "containerd.install.registries" in upstream(graph, pull.id)
    assert [name for name in graph.nodes if name.startswith("images.")] == [pull.id]


def test_the_place_of_a_bundle_is_no_part_of_the_plan(tmp_path: Path) -> None:
    text = cluster("kubernetes: {version: v1.34.4}")
    one = whole_bundle(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "elsewhere" / "two")
    plans = [graph_of(with_bundles(context_of(text, tmp_path / "work"), amd64=place)).to_dict() for place in (one, two)]
    assert plans[0] == plans[1]
    assert str(tmp_path) not in str(plans[0])
