"""Labels, taints and roles of nodes, and waiting until they are Ready."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.api import FoundNode, NodeSetting
from kubexm.components.milestones import CLUSTER_UP, FIRST_NODES_READY, NODE_JOINED
from kubexm.components.nodes import NodeSettings
from kubexm.components.nodes.module import setting_of
from kubexm.components.nodes.steps import NODE_UP, NodeNetworked, NodesReady, NodesSet
from kubexm.connector import Host
from kubexm.errors import StepError
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.http_stub import Answer, Call
from tests.unit.components.api_plan import api_graph
from tests.unit.components.around import SINGLE, cluster, context_of
from tests.unit.components.kube_api import KubeApi, changed
from tests.unit.components.kube_http import status

WANTED = NodeSetting("n1", (("disk", "ssd"), ("node-role.kubernetes.io/worker", "")), ("gpu=true:NoSchedule",))


def row(name: str, *, ready: bool = True, labels: Any = None, taints: Any = None, note: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels or {}}
    metadata["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {}}]
    metadata["annotations"] = {"kubexm.io/node-settings": note} if note else {}
    ready_now = {"type": "Ready", "status": str(ready), "message": "" if ready else "cni plugin not initialized"}
    spec, state = {"taints": taints or []}, {"conditions": [ready_now]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": state}


class Nodes:
    """An API that has nodes."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.api = KubeApi()
        self.put(*rows)

    def put(self, *rows: dict[str, Any]) -> None:
        for one in rows:
            self.api.objects["", "Node", "", one["metadata"]["name"]] = one
        self.api.http.changed()

    def taints(self, name: str = "n1") -> list[dict[str, str]]:
        taints: list[dict[str, str]] = self.api.objects["", "Node", "", name]["spec"]["taints"]
        return taints

    @property
    def changes(self) -> list[str]:
        return [verb for verb in self.api.http.verbs() if verb != "get"]

    def context(self, work_dir: Path, *up: str) -> StepContext:
        ctx = self.api.context(work_dir)
        for name in up:
            ctx.cache.set(NODE_UP, True, name)
        return ctx


def host(*roles: str, labels: dict[str, str] | None = None, taints: tuple[str, ...] = ()) -> Host:
    return Host(name="n1", address="10.0.0.1", roles=frozenset(roles), labels=labels or {}, taints=taints)


def test_roles_become_labels_and_control_planes_keep_pods_away() -> None:
    setting = setting_of(host("controlPlane", "etcd"))
    assert dict(setting.labels) == {
        "node-role.kubernetes.io/control-plane": "",
        "node.kubernetes.io/exclude-from-external-load-balancers": "",
    }
    assert setting.taints == ("node-role.kubernetes.io/control-plane:NoSchedule",)


def test_a_control_plane_that_works_too_takes_pods() -> None:
    setting = setting_of(host("controlPlane", "worker", labels={"disk": "ssd"}, taints=("gpu:NoSchedule",)))
    assert dict(setting.labels) == {
        "disk": "ssd",
        "node-role.kubernetes.io/control-plane": "",
        "node-role.kubernetes.io/worker": "",
    }
    assert setting.taints == ("gpu:NoSchedule",)


def test_what_differs_is_told_and_what_is_others_is_not() -> None:
    labels = {"disk": "hdd", "kubernetes.io/hostname": "n1", "old": "x", "theirs": "y"}
    note = json.dumps({"labels": ["disk", "old"], "taints": ["old:NoSchedule"]})
    found = FoundNode("n1", labels=labels, taints=frozenset({"old:NoSchedule", "theirs:NoExecute"}), note=note)
    assert found.faults(WANTED) == [
        "label disk=ssd",
        "label node-role.kubernetes.io/worker=",
        "taint gpu=true:NoSchedule",
        "label old is to go",
        "taint old:NoSchedule is to go",
    ]


async def test_nodes_that_are_as_they_should_be_cost_one_question(tmp_path: Path) -> None:
    good = row("n1", labels=dict(WANTED.labels), taints=[_taint("gpu", "true")], note=WANTED.note)
    nodes = Nodes(good, row("stranger"))
    assert (await NodesSet(nodes=(WANTED,)).precheck(nodes.context(tmp_path, "n1"))).satisfied
    assert nodes.api.http.requests == ["GET /api/v1/nodes"]


async def test_an_edit_sets_taints_first_and_labels_with_the_note(tmp_path: Path) -> None:
    note = json.dumps({"labels": ["old"], "taints": ["old:NoSchedule"]})
    nodes = Nodes(row("n1", labels={"old": "x"}, taints=[_taint("old"), _taint("theirs")], note=note))
    ctx = nodes.context(tmp_path, "n1")
    step = NodesSet(nodes=(WANTED,))
    check = await step.precheck(ctx)
    assert check.diff.splitlines()[2:] == [
        "-label old=x",
        "-taint old:NoSchedule",
        "+label disk=ssd",
        "+label node-role.kubernetes.io/worker=",
        "+taint gpu=true:NoSchedule",
    ]
    await changed(ctx, step)
    assert nodes.taints() == [_taint("theirs"), _taint("gpu", "true")]
    assert nodes.changes == ["patch", "apply"], "what says which are ours comes last"
    document = json.loads(nodes.api.http.calls[-1].body)
    assert document["metadata"]["uid"] == "uid-n1", "or a node that is gone would be made anew"
    assert document["metadata"]["labels"] == dict(WANTED.labels)


async def test_a_taint_with_another_value_replaces_the_old_one(tmp_path: Path) -> None:
    note = json.dumps({"labels": [], "taints": ["gpu=false:NoSchedule"]})
    nodes = Nodes(row("n1", taints=[_taint("gpu", "false")], note=note))
    await changed(nodes.context(tmp_path, "n1"), NodesSet(nodes=(WANTED,)))
    assert nodes.taints() == [_taint("gpu", "true")]


async def test_taints_that_somebody_sets_at_the_same_moment_are_kept(tmp_path: Path) -> None:
    nodes = Nodes(row("n1"))
    tried: list[Call] = []

    def meanwhile(call: Call) -> Answer | None:
        if call.method != "PATCH" or "merge" not in call.headers["content-type"]:
            return None
        tried.append(call)
        assert json.loads(call.body)["metadata"] == {"resourceVersion": str(len(tried))}
        if len(tried) > 1:
            return None
        now = row("n1", taints=[_taint("theirs")])
        now["metadata"]["resourceVersion"] = "2"
        nodes.put(now)
        return status(409, "the object has been modified", "Conflict")

    nodes.api.http.hook = meanwhile
    await changed(nodes.context(tmp_path, "n1"), NodesSet(nodes=(WANTED,)))
    assert nodes.taints() == [_taint("theirs"), _taint("gpu", "true")]


async def test_many_nodes_are_set_at_the_same_time(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(5)]
    nodes = Nodes(*map(row, names))
    settings = tuple(NodeSetting(name, (), ("a:NoSchedule",)) for name in names)
    await changed(nodes.context(tmp_path, *names), NodesSet(nodes=settings))
    assert all(nodes.taints(name) == [_taint("a")] for name in names)
    assert nodes.changes == ["patch"] * 5 + ["apply"] * 5


async def test_hosts_that_were_lost_do_not_count(tmp_path: Path) -> None:
    nodes = Nodes(row("n1", labels=dict(WANTED.labels), taints=[_taint("gpu", "true")], note=WANTED.note))
    ctx = nodes.context(tmp_path, "n1")
    lost = NodeSetting("lost")
    assert (await NodesSet(nodes=(WANTED, lost)).precheck(ctx)).satisfied
    assert (await NodesReady(nodes=("n1", "lost"), plugin="flannel").precheck(ctx)).satisfied


async def test_read_ahead_of_its_turn_only_a_cluster_where_all_are_well_satisfies(tmp_path: Path) -> None:
    nodes = Nodes(row("n1", labels=dict(WANTED.labels), taints=[_taint("gpu", "true")], note=WANTED.note))
    early = nodes.context(tmp_path)
    assert not (await NodesSet(nodes=(WANTED, NodeSetting("late"))).precheck(early)).satisfied
    assert not (await NodesReady(nodes=("n1", "late"), plugin="flannel").precheck(early)).satisfied
    assert (await NodesReady(nodes=("n1",), plugin="flannel").precheck(early)).satisfied
    assert not NodesReady(nodes=("n1",), plugin="flannel").gathers(), "or it would not be read ahead"


async def test_what_precheck_found_is_not_asked_for_again_but_by_a_second_try(tmp_path: Path) -> None:
    nodes = Nodes(row("n1"))
    ctx, step = nodes.context(tmp_path, "n1"), NodesSet(nodes=(WANTED,))
    assert not (await step.precheck(ctx)).satisfied
    await changed(ctx, step)
    asked = [call.path for call in nodes.api.http.calls]
    assert asked.count("/api/v1/nodes") == 1
    await changed(ctx, step)
    assert [call.path for call in nodes.api.http.calls].count("/api/v1/nodes") == 2


async def test_nodes_that_do_not_register_are_named_and_the_others_are_set(tmp_path: Path) -> None:
    nodes = Nodes(row("n1"))
    ctx = nodes.context(tmp_path, "n1", "n2", "n3")
    step = NodesSet(nodes=(NodeSetting("n2"), WANTED, NodeSetting("n3")), patience=0.1)
    check = await step.precheck(ctx)
    assert check.reason.startswith("not registered yet: n2, n3; n1: label disk=ssd")
    assert "+label disk=ssd" in check.diff
    with pytest.raises(StepError, match=r"after 0\.1 s: n2, n3") as caught:
        await changed(ctx, step)
    assert "n2" in caught.value.hint
    assert nodes.taints("n1") == [_taint("gpu", "true")]
    assert nodes.changes == ["patch", "apply"]


async def test_a_node_that_registers_late_is_set_too(tmp_path: Path) -> None:
    nodes = Nodes(row("n2"))
    ctx = nodes.context(tmp_path, "n1", "n2")
    running = asyncio.ensure_future(changed(ctx, NodesSet(nodes=(WANTED, NodeSetting("n2")), patience=60)))
    await asyncio.sleep(0.1)
    nodes.put(row("n1"))
    await running
    assert nodes.taints("n1") == [_taint("gpu", "true")]


async def test_waiting_for_nodes_watches_and_does_not_ask_again_and_again(tmp_path: Path) -> None:
    nodes = Nodes(row("n1", ready=False))
    ctx = nodes.context(tmp_path, "n1")
    step = NodesReady(nodes=("n1",), plugin="flannel", patience=30)
    assert (await step.precheck(ctx)).reason == "not Ready yet: n1"
    running = asyncio.ensure_future(changed(ctx, step))
    await asyncio.sleep(0.1)
    nodes.put(row("n1"))
    await running
    assert len(nodes.api.http.calls) == 3, "one question for the precheck, one list, one watch"
    assert (await step.precheck(ctx)).satisfied


async def test_a_node_that_stays_not_ready_says_why(tmp_path: Path) -> None:
    nodes = Nodes(row("n1", ready=False))
    with pytest.raises(StepError, match="n1: cni plugin not initialized"):
        await changed(nodes.context(tmp_path, "n1"), NodesReady(nodes=("n1",), plugin="flannel", patience=0.1))


async def test_with_no_network_of_ours_nodes_need_not_be_ready(tmp_path: Path) -> None:
    ctx = Nodes(row("n1", ready=False)).context(tmp_path, "n1")
    assert (await NodesReady(nodes=("n1",), plugin="none").precheck(ctx)).satisfied


async def test_a_host_has_its_network_once_a_configuration_is_there(tmp_path: Path) -> None:
    connector = MemoryConnector("n1").on(re.compile(r"(?s).*exit 44\n"), exit_code=44, times=1)
    context = memory_context(tmp_path, {"n1": connector})
    ctx = context.step_context("nodes.settle.network", UnitConnector(connector, Transcript), "run-1")
    assert not (await NodeNetworked(plugin="flannel").precheck(ctx)).satisfied
    connector.on(re.compile(r"(?s).*exit 44\n"))
    check = await NodeNetworked(plugin="flannel").precheck(ctx)
    assert check.satisfied
    assert check.values == {NODE_UP: True}
    assert (await NodeNetworked(plugin="none").precheck(ctx)).satisfied


async def test_a_host_without_network_tells_the_last_words_of_the_plugin(tmp_path: Path) -> None:
    connector = MemoryConnector("n1").on(re.compile(r"(?s).*until for.*"), exit_code=44)
    connector.on(re.compile(r"(?s).*journalctl.*"), stdout="install-cni: cannot pull the image\n")
    context = memory_context(tmp_path, {"n1": connector})
    ctx = context.step_context("nodes.settle.network", UnitConnector(connector, Transcript), "run-1")
    with pytest.raises(StepError, match="cannot pull the image") as caught:
        await NodeNetworked(plugin="flannel", patience=1).run(ctx)
    assert caught.value.hint.startswith("`kubectl -n kube-flannel get pods -o wide` and ")
    assert "/var/log/pods/kube-flannel_kube-flannel-ds-*/*/*.log" in connector.scripts[-1]


def test_each_host_waits_for_itself_and_the_cluster_for_all(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster(), tmp_path), NodeSettings)
    network, settings, ready = (graph.nodes[f"nodes.settle.{name}"] for name in ("network", "settings", "ready"))
    assert network.hosts == ("cp3", "w1", "w2")
    assert network.needs == (NODE_JOINED,)
    assert settings.via == ready.via == ("cp1", "cp2", "cp3")
    assert settings.after == ("nodes.settle.first-network", "nodes.settle.network")
    assert ready.provides == (CLUSTER_UP,)
    assert isinstance(ready.step, NodesReady)
    assert ready.step.plugin == "flannel"


def test_dns_waits_for_as_many_nodes_as_it_has_pods_and_for_no_slow_worker(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster(), tmp_path), NodeSettings)
    early, ready = graph.nodes["nodes.settle.first-network"], graph.nodes["nodes.settle.first-ready"]
    assert early.hosts == ("cp1", "cp2")
    assert ready.after == (early.id,)
    assert ready.provides == (FIRST_NODES_READY,)
    many = api_graph(context_of(cluster("dns: {coredns: {replicas: 4}}"), tmp_path), NodeSettings)
    assert many.nodes["nodes.settle.first-network"].hosts == ("cp1", "cp2", "cp3", "w1")


def test_a_single_node_is_the_first_and_the_last(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster("", SINGLE), tmp_path), NodeSettings)
    assert graph.nodes["nodes.settle.first-network"].hosts == ("n1",)
    assert "nodes.settle.network" not in graph.nodes


def test_with_a_network_of_the_users_own_nothing_is_waited_for(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster("network: {plugin: none}"), tmp_path), NodeSettings)
    assert graph.nodes["nodes.settle.network"].step == NodeNetworked(plugin="none")
    ready = graph.nodes["nodes.settle.ready"].step
    assert isinstance(ready, NodesReady)
    assert ready.plugin == "none"


def _taint(key: str, value: str = "") -> dict[str, str]:
    return {"key": key, "effect": "NoSchedule", **({"value": value} if value else {})}
