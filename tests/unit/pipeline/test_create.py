"""Create, planned from config alone: for every minor, mode and shape, held in golden files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm.assets import catalog
from kubexm.plan import ExecutionGraph, RunSpec
from kubexm.plan.render import PlanFormat, render
from kubexm.service import ClusterService, ServiceOptions

GOLDEN = Path(__file__).parent / "golden"
HOSTS = [{"name": "n[1:5]", "address": "10.0.0.[1:5]"}]
HA = {"etcd": ["n[1:3]"], "controlPlane": ["n[1:3]"], "worker": ["n[4:5]"]}
APART = {"etcd": ["n[1:3]"], "controlPlane": ["n4"], "worker": ["n5"], "loadbalancer": ["n5"]}


async def planned(directory: Path, **spec: Any) -> ExecutionGraph:
    """The plan of a cluster of five hosts with these settings, no host asked and no bundle at hand."""
    kubernetes = {"version": "v1.34.4", **spec.get("kubernetes", {})}
    document = {
        "apiVersion": "kubexm.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "prod"},
        "spec": {"hosts": HOSTS, "roleGroups": HA, **spec, "kubernetes": kubernetes},
    }
    file = directory / "cluster.yaml"
    with file.open("w") as out:
        YAML(typ="safe").dump(document, out)
    service = ClusterService(ServiceOptions(work_dir=str(directory / "work")))
    return (await service.plan(file, RunSpec.of("create"), offline=True)).graph


def assert_golden(name: str, graph: ExecutionGraph) -> None:
    path = GOLDEN / f"{name}.txt"
    text = render(graph, PlanFormat.TREE)
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"


@pytest.mark.parametrize("minor", catalog.minors())
async def test_every_minor(minor: str, tmp_path: Path) -> None:
    graph = await planned(tmp_path, kubernetes={"version": catalog.newest(minor)})
    assert_golden(f"ha-{minor}", graph)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("stacked", {"etcd": {"type": "kubeadm"}}),
        ("binary", {"kubernetes": {"type": "kubexm"}}),
        ("etcd-apart", {"roleGroups": APART}),
        ("no-network", {"network": {"plugin": "none"}, "storage": {"localPath": {"enabled": False}}}),
        (
            "balancer-outside",
            {
                "controlPlaneEndpoint": {"loadBalancer": "external", "address": "10.0.0.100"},
                "system": {"ntpServers": ["10.0.0.9"]},
            },
        ),
    ],
)
async def test_every_mode(name: str, spec: dict[str, Any], tmp_path: Path) -> None:
    assert_golden(name, await planned(tmp_path, **spec))


async def test_the_same_file_gives_the_same_plan(tmp_path: Path) -> None:
    first, second = await planned(tmp_path), await planned(tmp_path)
    assert first.to_json() == second.to_json()


async def test_nobody_waits_for_somebody_elses_preparation(tmp_path: Path) -> None:
    graph = await planned(tmp_path)
    preparing = [node for node in graph.nodes.values() if node.module in ("os", "containerd", "images", "kubelet")]
    assert preparing
    for node in preparing:
        barriers = [graph.nodes[other] for other in node.after]
        assert all(other.hosts == ("control-node",) or other.module == "preflight" for other in barriers), node.id


async def test_workers_get_no_images_of_the_control_plane(tmp_path: Path) -> None:
    graph = await planned(tmp_path)
    sends = [node for node in graph.nodes.values() if node.id.startswith("images.bring.send")]
    for_workers = [node for node in sends if "n4" in node.hosts]
    assert for_workers
    assert all("kube-apiserver" not in repr(node.step) for node in for_workers)
