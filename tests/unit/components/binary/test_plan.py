"""The plan of a control plane under systemd: all at once when new, one at a time when it runs; nobody waits in vain."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.components.binary import BinaryControlPlane
from kubexm.components.host_files import FilesPresent
from kubexm.components.kube_proxy import KubeProxy
from kubexm.components.milestones import API_READY, JOINING_OPEN, NODE_JOINED
from kubexm.components.nodes import JoinedNodes
from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.redact import SecretRef
from kubexm.step import ServiceRunning
from tests.unit.components.around import SINGLE, cluster, context_of, graph_of, marked

GOLDEN = Path(__file__).parent / "golden"
BINARY = "kubernetes: {type: kubexm}"
CONTROL_PLANES = ("cp1", "cp2", "cp3")


def plan(tmp_path: Path, text: str = "", **facts: Any) -> ExecutionGraph:
    context = context_of(text or cluster(BINARY), tmp_path, facts)
    return graph_of(context, BinaryControlPlane, JoinedNodes, KubeProxy)


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


def settings(graph: ExecutionGraph, name: str = "binary.run.settings") -> FilesPresent:
    step = graph.nodes[name].step
    assert isinstance(step, FilesPresent)
    return step


def unit(graph: ExecutionGraph, name: str) -> ServiceRunning:
    step = graph.nodes[name].step
    assert isinstance(step, ServiceRunning)
    return step


def providers(graph: ExecutionGraph, milestone: object) -> list[ExecutionNode]:
    return [node for node in graph.nodes.values() if milestone in node.provides]


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"


@pytest.mark.parametrize(
    "version", ["v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.1", "v1.36.0", "v1.37.1"]
)
def test_golden_units_and_settings(version: str, tmp_path: Path) -> None:
    graph = plan(tmp_path, cluster(f"kubernetes: {{type: kubexm, version: {version}}}", hosts=SINGLE))
    parts = []
    for node in ("binary.run.settings", "kube-proxy.run.settings"):
        for file in settings(graph, node).files:
            content = f"secret {file.content.name}\n" if isinstance(file.content, SecretRef) else file.content
            parts.append(f"# {file.path} {file.mode:o}\n{content}")
    golden(f"units-{version.rpartition('.')[0]}.txt", "\n".join(parts))


@pytest.mark.parametrize("form", ["new", "running"])
def test_golden_plan(form: str, tmp_path: Path) -> None:
    facts: dict[str, Any] = (
        {name: {"marker": marked("etcd", "controlPlane")} for name in CONTROL_PLANES} if form == "running" else {}
    )
    graph = plan(tmp_path, **facts)
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
    golden(f"plan-{form}.json", json.dumps(shown, indent=1) + "\n")


def test_a_new_control_plane_starts_everywhere_at_once(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    node = graph.nodes["binary.run.api-server"]
    assert node.hosts == CONTROL_PLANES
    assert "others.all.etcd" in node.after
    for other in upstream(graph, node.id):
        # A barrier over hosts would be one that waits for a node of this module on all of them.
        assert not [name for name in graph.nodes[other].after if name.startswith("binary.")]


def test_an_api_server_that_lost_the_race_for_an_empty_etcd_is_started_again(tmp_path: Path) -> None:
    retry = plan(tmp_path).nodes["binary.run.api-server"].retry
    assert retry is not None
    assert retry.times >= 2


def test_nothing_is_sent_later_than_it_could_be(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    for name in ("kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert upstream(graph, f"binary.run.{name}") == set()
    assert upstream(graph, "kube-proxy.run.kube-proxy") == set()
    assert upstream(graph, "binary.run.settings") == {"others.all.pki"}


def test_the_api_is_ready_with_the_first_control_plane(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    (node,) = providers(graph, API_READY)
    assert (node.hosts, node.via) == (("cluster",), CONTROL_PLANES)
    assert node.after == ("binary.open.serving",)
    serving = graph.nodes["binary.open.serving"]
    assert (serving.hosts, serving.after_same_host) == (("cp1",), ("binary.run.api-server-ready",))
    assert JOINING_OPEN in node.provides


def test_a_node_joins_as_soon_as_it_and_the_api_are_ready(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    workers = upstream(graph, "nodes.join.kubelet")
    assert "others.all.balancer" in workers
    planes = upstream(graph, "binary.run.kubelet")
    assert {"binary.run.api-server-ready", "binary.run.kubelet-certified"} <= planes
    assert not {"nodes.join.token", "nodes.join.controllers", "binary.run.controller-manager"} & planes
    assert "binary.run.kubelet" in upstream(graph, "nodes.join.registered")
    for node in providers(graph, NODE_JOINED):
        assert {"others.all.images", "others.all.runtime", "others.all.kubelet"} <= upstream(graph, node.id)
        assert not {"binary.run.scheduler", "binary.run.scheduler-healthy"} & upstream(graph, node.id)
    assert sorted(host for node in providers(graph, NODE_JOINED) for host in node.hosts) == [
        *CONTROL_PLANES,
        "w1",
        "w2",
    ]


def test_nodes_behind_a_balancer_of_the_users_own_wait_for_none_of_ours(tmp_path: Path) -> None:
    more = f"{BINARY}\ncontrolPlaneEndpoint: {{loadBalancer: external, address: 10.0.0.100}}"
    graph = plan(tmp_path, cluster(more))
    assert "others.all.balancer" not in upstream(graph, "nodes.join.kubelet")


def test_a_running_control_plane_is_changed_one_host_at_a_time_with_health_in_between(tmp_path: Path) -> None:
    facts: dict[str, Any] = {name: {"marker": marked("etcd", "controlPlane")} for name in CONTROL_PLANES}
    graph = plan(tmp_path, **facts)
    for before, after in (("cp1", "cp2"), ("cp2", "cp3")):
        first = graph.nodes[f"binary.run.settings.{after}"]
        healthy = {f"binary.run.{name}-healthy.{before}" for name in ("controller-manager", "scheduler")}
        assert healthy <= set(first.after)
        assert f"binary.run.api-server-ready.{before}" in upstream(graph, f"binary.run.api-server.{after}")


def test_an_empty_control_plane_starts_beside_those_that_run(tmp_path: Path) -> None:
    facts: dict[str, Any] = {name: {"marker": marked("etcd", "controlPlane")} for name in ("cp1", "cp3")}
    graph = plan(tmp_path, **facts)
    assert graph.nodes["binary.run.api-server"].hosts == ("cp2",)
    assert "binary.run.api-server.cp3" in graph.nodes
    assert not [name for name in upstream(graph, "binary.run.api-server") if name.count(".") > 2]


def test_what_is_asked_first_is_a_control_plane_that_ran_before(tmp_path: Path) -> None:
    graph = plan(tmp_path, cp2={"marker": marked("controlPlane")})
    (node,) = providers(graph, API_READY)
    assert node.via == ("cp2",)
    assert "binary.run.api-server-ready.cp2" in upstream(graph, node.id)


def test_marks_are_made_where_a_role_was_brought_up(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    assert graph.nodes["binary.run.marked"].hosts == CONTROL_PLANES
    assert graph.nodes["binary.run.marked"].after_same_host == ("binary.run.api-server-ready",)
    assert graph.nodes["nodes.join.marked"].hosts == ("w1", "w2")
    assert "nodes.join.marked-control-planes" not in graph.nodes


def test_each_unit_is_restarted_for_its_own_files_only(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    server = {path.name for path in unit(graph, "binary.run.api-server").inputs}
    assert {"admission.yaml", "audit-policy.yaml", "authentication.yaml", "sa.key"} <= server
    assert not {"scheduler.yaml", "encryption.yaml", "apiserver.crt"} & server, "others read them, or they are reloaded"
    scheduler = unit(graph, "binary.run.scheduler").inputs
    assert {path.name for path in scheduler} == {"scheduler.yaml", "scheduler.conf", "stamp"}
    assert PurePosixPath("/opt/kubexm/programs/kube-scheduler/current/stamp") in scheduler


def test_an_edit_reaches_only_the_file_it_is_for(tmp_path: Path) -> None:
    before = settings(plan(tmp_path)).files
    more = "kubernetes: {type: kubexm, scheduler: {extraArgs: {v: 4}}}"
    after = settings(plan(tmp_path, cluster(more))).files
    changed = {file.path.name for file in set(before) ^ set(after)}
    assert changed == {"kube-scheduler.service"}


def test_api_servers_differ_in_their_address_only(tmp_path: Path) -> None:
    units = [file for file in settings(plan(tmp_path)).files if file.path.name == "kube-apiserver.service"]
    assert [file.hosts for file in units] == [("cp1",), ("cp2",), ("cp3",)]
    texts = [str(file.content) for file in units]
    assert texts[0].replace("10.0.0.11 ", "10.0.0.12 ", 1) == texts[1]
    assert "--etcd-servers=https://10.0.0.11:2379,https://10.0.0.12:2379,https://10.0.0.13:2379" in texts[2]
    assert "After=network-online.target etcd.service" in texts[0]


def test_an_external_etcd_is_used_where_the_file_says(tmp_path: Path) -> None:
    files = "caFile: /ca, certFile: /crt, keyFile: /key"
    more = f"{BINARY}\netcd: {{type: external, external: {{endpoints: ['https://10.9.9.9:2379'], {files}}}}}"
    graph = plan(tmp_path, cluster(more).replace('    etcd: ["cp[1:3]"]', "    etcd: []"))
    assert "others.all.etcd" in upstream(graph, "binary.run.api-server")
    text = next(str(file.content) for file in settings(graph).files if file.path.name == "kube-apiserver.service")
    assert "--etcd-servers=https://10.9.9.9:2379" in text
    assert "After=network-online.target\n" in text


def test_a_program_is_asked_where_the_user_put_it(tmp_path: Path) -> None:
    more = "kubernetes: {type: kubexm, controllerManager: {extraArgs: {secure-port: 20257}}}"
    graph = plan(tmp_path, cluster(more))
    assert graph.nodes["binary.run.controller-manager-healthy"].step.port == 20257  # type: ignore[attr-defined]
    assert graph.nodes["binary.run.scheduler-healthy"].step.port == 10259  # type: ignore[attr-defined]


def test_a_cluster_of_kubeadm_has_none_of_this(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path)
    graph = graph_of(context, BinaryControlPlane)
    assert not [name for name in graph.nodes if name.startswith("binary.")]


def test_plans_hold_no_secret_and_survive_saving(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    assert ExecutionGraph.from_dict(json.loads(json.dumps(graph.to_dict()))).to_json() == graph.to_json()
    secrets = [file for file in settings(graph).files if isinstance(file.content, SecretRef)]
    assert [(file.path.name, file.mode) for file in secrets] == [("encryption.yaml", 0o600)]
