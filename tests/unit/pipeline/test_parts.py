"""Parts of create: `--only` and `--skip` by any of its components, in every mode, for new clusters and running ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.pipeline import pipeline_named
from kubexm.plan import ExecutionGraph
from kubexm.service.selection import choose_nodes
from kubexm.step import OnlyRead
from tests.unit.components.around import cluster, context_of, marked

MODES = {"kubeadm": "", "stacked": "etcd: {type: kubeadm}", "binary": "kubernetes: {type: kubexm}"}
CONTROL_PLANE = {"kubeadm": "kubeadm", "stacked": "kubeadm", "binary": "binary"}


def planned(directory: Path, mode: str, *, running: bool) -> ExecutionGraph:
    roles = ("controlPlane",) if mode == "stacked" else ("etcd", "controlPlane")
    marks = {name: {"marker": marked(*roles)} for name in ("cp1", "cp2", "cp3")} if running else {}
    context = context_of(cluster(MODES[mode]), directory, marks)
    return pipeline_named("create").plan(context.pipeline_context())


def left(graph: ExecutionGraph) -> list[str]:
    return [node.id for node in graph.nodes.values() if not node.excluded]


@pytest.mark.parametrize("running", [False, True], ids=["new", "running"])
@pytest.mark.parametrize("mode", MODES)
def test_every_component_can_be_chosen_or_left_out(mode: str, running: bool, tmp_path: Path) -> None:
    graph = planned(tmp_path, mode, running=running)
    modules = {node.module for node in graph.nodes.values()}
    assert {"pki", "kubelet", "nodes", "verify", CONTROL_PLANE[mode]} <= modules
    for module in modules:
        own = {node.id for node in graph.nodes.values() if node.module == module}
        chosen = choose_nodes(graph, [module], [])
        assert own <= set(left(chosen)), "all of it"
        assert {name for name in left(chosen) if name not in own} <= {name for name in graph.nodes if "pki." in name}
        rest = choose_nodes(graph, [], [module])
        still = {name for name in own if not rest.nodes[name].excluded}
        assert all(isinstance(rest.nodes[name].step, OnlyRead) for name in still), "no change"
        assert still == ({"pki.authorities.uid", "pki.authorities.kept"} if module == "pki" else set())
        for part in (chosen, rest):
            assert ExecutionGraph.from_dict(part.to_dict()).digest == part.digest


@pytest.mark.parametrize("mode", ["kubeadm", "binary"])
def test_etcd_alone_keeps_the_uid_and_its_own_certificates(mode: str, tmp_path: Path) -> None:
    graph = planned(tmp_path, mode, running=False)
    others = [name for name in left(choose_nodes(graph, ["etcd"], [])) if not name.startswith("etcd.")]
    assert others == ["pki.authorities.uid", "pki.authorities.kept", "pki.certificates.etcd"]
    assert [name for name in left(choose_nodes(graph, ["os"], [])) if not name.startswith("os.")] == []


def test_a_node_that_is_rolled_is_chosen_on_every_host(tmp_path: Path) -> None:
    graph = planned(tmp_path, "kubeadm", running=True)
    chosen = [name for name in left(choose_nodes(graph, ["kubeadm.run.manifests"], [])) if "pki." not in name]
    assert chosen == [f"kubeadm.run.manifests.cp{number}" for number in (1, 2, 3)]
