"""The plan of a control plane of static pods: at once when new, one at a time when it runs; nobody waits in vain."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.kubeadm import KubeadmControlPlane
from kubexm.components.kubeadm.members import PodMemberAdmitted, PodMembersKnown
from kubexm.components.kubelet import JOIN_TOKEN, Kubelet
from kubexm.components.milestones import API_READY, JOINING_OPEN, KUBELET_INSTALLED, NODE_JOINED
from kubexm.components.nodes import JoinedNodes
from kubexm.module import link
from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.step import ServiceRunning
from tests.unit.components.around import SINGLE, Others, cluster, context_of, graph_of, marked

GOLDEN = Path(__file__).parent / "golden"
PLANES = ("cp1", "cp2", "cp3")
STACKED = "etcd: {type: kubeadm}"


def plan(tmp_path: Path, more: str = "", hosts: str = "", **facts: Any) -> ExecutionGraph:
    text = cluster(more, hosts=hosts) if hosts else cluster(more)
    return graph_of(context_of(text, tmp_path, facts), KubeadmControlPlane, JoinedNodes)


def running(*names: str) -> dict[str, Any]:
    return {name: {"marker": marked("controlPlane")} for name in names}


def upstream(graph: ExecutionGraph, name: str) -> set[str]:
    """Everything a node waits for, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        node = graph.nodes[waiting.pop()]
        for other in (*node.after, *node.after_same_host):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def providers(graph: ExecutionGraph, milestone: object) -> list[ExecutionNode]:
    return [node for node in graph.nodes.values() if milestone in node.provides]


@pytest.mark.parametrize("form", ["new", "running", "stacked", "stacked-joining"])
def test_golden_plan(form: str, tmp_path: Path) -> None:
    facts = {"running": running(*PLANES), "stacked-joining": running("cp1", "cp2")}.get(form, {})
    graph = plan(tmp_path, STACKED if "stacked" in form else "", **facts)
    shown = {
        node.id: {
            "hosts": list(node.hosts),
            "step": node.step.describe(),
            "after": list(node.after),
            "same host": list(node.after_same_host),
            "provides": [mark.name for mark in node.provides],
        }
        for node in graph.nodes.values()
        if not node.id.startswith("others.")
    }
    text = json.dumps(shown, indent=1) + "\n"
    path = GOLDEN / f"plan-{form}.json"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"


def test_a_new_control_plane_starts_everywhere_at_once(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    node = graph.nodes["kubeadm.run.manifests"]
    assert node.hosts == PLANES
    assert "others.all.etcd" in node.after
    for other in upstream(graph, "kubeadm.run.api"):
        assert not [name for name in graph.nodes[other].after if name.startswith("kubeadm.")]


def test_so_do_the_members_of_a_stacked_etcd(tmp_path: Path) -> None:
    graph = plan(tmp_path, STACKED)
    assert graph.nodes["kubeadm.run.etcd"].hosts == PLANES
    assert isinstance(graph.nodes["kubeadm.run.members"].step, PodMembersKnown)
    for other in upstream(graph, "kubeadm.run.api"):
        assert not [name for name in graph.nodes[other].after if name.startswith("kubeadm.")]
    assert "others.all.etcd" not in upstream(graph, "kubeadm.run.api")


def test_programs_and_settings_are_sent_at_once(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    for name in ("kubeadm", "kubectl", "audit-log"):
        assert upstream(graph, f"kubeadm.prepare.{name}") == set()
    for name in ("pki", "settings"):
        assert upstream(graph, f"kubeadm.prepare.{name}") == {"others.all.pki"}


def test_the_api_is_ready_with_the_first_control_plane_and_with_nothing_else(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    (node,) = providers(graph, API_READY)
    assert (node.hosts, node.via) == (("cluster",), PLANES)
    assert node.after == ("kubeadm.open.serving",)
    serving = graph.nodes["kubeadm.open.serving"]
    assert (serving.hosts, serving.after_same_host) == (("cp1",), ("kubeadm.run.api",))
    assert JOINING_OPEN in node.provides
    assert not {"kubeadm.run.controllers", "kubeadm.run.marked"} & upstream(graph, node.id)


def test_nodes_that_go_through_the_api_may_act_from_any_control_plane(tmp_path: Path) -> None:
    graph = plan(tmp_path, **running(*PLANES))
    through = [node for node in graph.nodes.values() if node.hosts == ("cluster",)]
    assert {"kubeadm.open.settings", "nodes.join.token", "nodes.join.controllers"} <= {node.id for node in through}
    assert {node.via for node in through} == {PLANES}


def test_the_kubelet_of_a_control_plane_is_started_once_with_its_pods_in_place(tmp_path: Path) -> None:
    for more in ("", STACKED):
        graph = plan(tmp_path / (more or "apart"), more)
        started = [node for node in graph.nodes.values() if isinstance(node.step, ServiceRunning)]
        hosts = [host for node in started for host in node.hosts if node.step.unit == "kubelet"]  # type: ignore[attr-defined]
        assert sorted(hosts) == [*PLANES, "w1", "w2"]
        before = upstream(graph, "kubeadm.run.kubelet")
        assert {"kubeadm.run.manifests", "kubeadm.prepare.kubelet-certified", "others.all.images"} <= before
        if more:
            assert {"kubeadm.run.etcd", "kubeadm.run.etcd-member"} <= before


def test_a_worker_joins_as_soon_as_it_and_the_api_are_ready(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    before = upstream(graph, "nodes.join.kubelet")
    assert {"others.all.images", "others.all.runtime", "others.all.host", "others.all.balancer"} <= before
    assert "kubeadm.open.rights" in before
    assert not {"kubeadm.run.controllers", "kubeadm.open.settings", "nodes.join.registered"} & before
    token = graph.nodes["nodes.join.token"]
    assert token.on_demand
    assert (token.hosts, token.via) == (("cluster",), PLANES)
    assert graph.nodes["nodes.join.admitted"].step.consumes() == (JOIN_TOKEN,)
    joined = sorted(host for node in providers(graph, NODE_JOINED) for host in node.hosts)
    assert joined == [*PLANES, "w1", "w2"]


def test_without_a_balancer_of_ours_nobody_waits_for_one(tmp_path: Path) -> None:
    graph = plan(tmp_path, "controlPlaneEndpoint: {loadBalancer: external, address: 10.9.9.9}")
    assert "others.all.balancer" not in upstream(graph, "nodes.join.kubelet")


def test_a_cluster_of_one_needs_no_token(tmp_path: Path) -> None:
    graph = plan(tmp_path, hosts=SINGLE)
    assert not [node for node in graph.nodes if node.startswith("nodes.join.") and "token" in node]
    assert graph.nodes["nodes.join.marked-control-planes"].hosts == ("n1",)


def test_control_planes_that_run_are_changed_one_at_a_time(tmp_path: Path) -> None:
    graph = plan(tmp_path, **running(*PLANES))
    second, third = upstream(graph, "kubeadm.run.manifests.cp2"), upstream(graph, "kubeadm.run.manifests.cp3")
    assert {"kubeadm.run.api.cp1", "kubeadm.run.controllers.cp1"} <= second
    assert "kubeadm.run.controllers.cp2" in third
    assert {"kubeadm.run.controllers.cp1", "kubeadm.run.kubelet.cp1"} <= upstream(graph, "kubeadm.run.kubelet.cp2")
    (node,) = providers(graph, API_READY)
    assert {f"kubeadm.run.api.{name}" for name in PLANES} <= upstream(graph, node.id)


def test_one_that_is_added_starts_without_waiting_for_the_others(tmp_path: Path) -> None:
    graph = plan(tmp_path, **running("cp1", "cp2"))
    assert graph.nodes["kubeadm.run.manifests"].hosts == ("cp3",)
    assert not [name for name in upstream(graph, "kubeadm.run.api") if name.count(".") > 2]


def test_a_stacked_one_joins_the_others_after_them_and_votes_before_its_api_counts(tmp_path: Path) -> None:
    graph = plan(tmp_path, STACKED, **running("cp1", "cp3"))
    step = graph.nodes["kubeadm.run.members.cp2"].step
    assert isinstance(step, PodMemberAdmitted)
    assert step.others == (("cp1", "https://10.0.0.11:2379"), ("cp3", "https://10.0.0.13:2379"))
    before = upstream(graph, "kubeadm.run.members.cp2")
    assert {"kubeadm.run.controllers.cp1", "kubeadm.run.controllers.cp3"} <= before
    assert "kubeadm.run.votes.cp2" in upstream(graph, "kubeadm.run.api.cp2")


def test_the_api_is_asked_through_a_control_plane_that_ran_before(tmp_path: Path) -> None:
    graph = plan(tmp_path, **running("cp2"))
    assert graph.nodes["kubeadm.open.serving"].hosts == ("cp2",)
    assert graph.nodes["kubeadm.open.rights"].via == ("cp2",)
    assert graph.nodes["nodes.join.token"].via == ("cp2",)


def test_other_clusters_plan_nothing_of_it(tmp_path: Path) -> None:
    graph = graph_of(context_of(cluster("kubernetes: {type: kubexm}"), tmp_path), KubeadmControlPlane)
    assert not [node for node in graph.nodes if node.startswith("kubeadm.")]


def test_the_kubelet_is_installed_beside_everything_and_started_by_nobody_here(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path)
    graph = link(OthersButKubelet, Kubelet).graph(context.pipeline_context(), name="test")
    (node,) = providers(graph, KUBELET_INSTALLED)
    assert node.hosts == (*PLANES, "w1", "w2")
    assert upstream(graph, "kubelet.install.binary") == set()
    assert upstream(graph, "kubelet.install.settings") == set()
    assert upstream(graph, "kubelet.install.pki") == {"others.all.pki"}
    assert not [one for one in graph.nodes.values() if isinstance(one.step, ServiceRunning)]


class OthersButKubelet(Others):
    """Every other component, apart from the kubelet itself."""

    def plan(self, ctx: Any) -> Any:
        from dataclasses import replace

        from kubexm.plan import ExecutionFragment

        fragment = super().plan(ctx)
        kept = [replace(node, provides=()) if node.id == "others.all.kubelet" else node for node in fragment.nodes]
        return ExecutionFragment(tuple(kept))
