"""Verification: what is looked at, what is tried, when it is tried again, and that nothing stays behind."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.cache import RUN_CHANGED
from kubexm.components.api import RolledOut, Workload
from kubexm.components.etcd.external import ExternalEtcdHealthy
from kubexm.components.health import ProgramAnswers
from kubexm.components.verify import Verification
from kubexm.components.verify.objects import LABEL, probe_objects, sample_of
from kubexm.components.verify.probe import ClusterProbed
from kubexm.components.verify.state import HERE, ApiServerReady, ControlPlanePodsReady, EtcdServes, NodesHealthy
from kubexm.connector import Command
from kubexm.errors import CommandError, StepError
from kubexm.module import sequence
from kubexm.pipeline import pipeline_named
from kubexm.plan import ExecutionGraph
from kubexm.runner import Facts
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.http_stub import Answer
from tests.unit.components.around import cluster, context_of
from tests.unit.components.kube_api import KubeApi, changed
from tests.unit.components.verify.test_asking import NSLOOKUP


def planned(tmp_path: Path, more: str = "", **options: bool) -> ExecutionGraph:
    context = context_of(cluster(more), tmp_path)
    return sequence(Verification(**options)).graph(context.pipeline_context(), name="test")


def names(graph: ExecutionGraph) -> list[str]:
    return [node.removeprefix("verify.") for node in graph.nodes]


def test_all_that_can_be_seen_is_looked_at_side_by_side(tmp_path: Path) -> None:
    graph = planned(tmp_path)
    looked = ["hosts", "api-servers", "control-plane", "etcd", "nodes", "workloads"]
    assert names(graph) == [*(f"state.{name}" for name in looked), "probe.hosts", "probe.workloads"]
    assert graph.nodes["verify.state.api-servers"].hosts == ("cp1", "cp2", "cp3")
    assert graph.nodes["verify.state.etcd"].step == EtcdServes(url="https://127.0.0.1:2379", patience=180.0)
    assert graph.nodes["verify.probe.workloads"].after == ("verify.probe.hosts",)
    pods = graph.nodes["verify.state.control-plane"].step
    assert isinstance(pods, ControlPlanePodsReady)
    assert pods.pods[:3] == ("kube-apiserver-cp1", "kube-controller-manager-cp1", "kube-scheduler-cp1")
    assert len(pods.pods) == 9


def test_what_is_looked_at_is_never_changed(tmp_path: Path) -> None:
    for text in ("", "kubernetes: {type: kubexm}"):
        graph = planned(tmp_path, text, alone=True, probe=False)
        assert all(not node.step.writes() for node in graph.nodes.values())


def test_programs_under_systemd_are_asked_themselves(tmp_path: Path) -> None:
    graph = planned(tmp_path, "kubernetes: {type: kubexm}")
    assert "verify.state.control-plane" not in graph.nodes
    node = graph.nodes["verify.state.scheduler"]
    assert node.hosts == ("cp1", "cp2", "cp3")
    assert node.step == ProgramAnswers(unit="kube-scheduler", path="/healthz", port=10259, within=180)
    workloads = graph.nodes["verify.state.workloads"].step
    assert isinstance(workloads, RolledOut)
    assert Workload("DaemonSet", "kube-system", "kube-proxy") not in workloads.workloads


def test_etcd_in_pods_is_asked_on_each_control_plane_and_its_pods_are_looked_at(tmp_path: Path) -> None:
    graph = planned(tmp_path, "etcd: {type: kubeadm}")
    node = graph.nodes["verify.state.etcd"]
    assert node.hosts == ("cp1", "cp2", "cp3")
    assert node.step == EtcdServes(url="https://127.0.0.1:2379", pod=True, patience=180.0)
    pods = graph.nodes["verify.state.control-plane"].step
    assert isinstance(pods, ControlPlanePodsReady)
    assert "etcd-cp2" in pods.pods


def test_an_etcd_of_the_users_own_is_asked_from_a_control_plane(tmp_path: Path) -> None:
    files = "caFile: /x/ca.crt, certFile: /x/client.crt, keyFile: /x/client.key"
    ends = "endpoints: ['https://10.5.0.1:2379', 'https://10.5.0.2:2379']"
    text = cluster(f"etcd: {{type: external, external: {{{ends}, {files}}}}}").replace('    etcd: ["cp[1:3]"]\n', "")
    context = context_of(text, tmp_path)
    graph = sequence(Verification(alone=True)).graph(context.pipeline_context(), name="test")
    node = graph.nodes["verify.state.etcd"]
    assert node.hosts == ("cp1",)
    assert node.step == ExternalEtcdHealthy(endpoints=("https://10.5.0.1:2379", "https://10.5.0.2:2379"))


def test_until_the_user_has_brought_a_network_no_pod_is_tried(tmp_path: Path) -> None:
    graph = planned(tmp_path, "network: {plugin: none}")
    assert "verify.probe.workloads" not in graph.nodes
    nodes, workloads = graph.nodes["verify.state.nodes"].step, graph.nodes["verify.state.workloads"].step
    assert isinstance(nodes, NodesHealthy)
    assert isinstance(workloads, RolledOut)
    assert not nodes.network
    assert workloads.workloads == (Workload("DaemonSet", "kube-system", "kube-proxy"),)
    alone = planned(tmp_path, "network: {plugin: none}", alone=True)
    assert "verify.probe.workloads" in alone.nodes, "who asks for it has brought one"


def test_storage_and_taints_of_the_file_reach_the_probe(tmp_path: Path) -> None:
    step = planned(tmp_path).nodes["verify.probe.workloads"].step
    assert isinstance(step, ClusterProbed)
    assert (step.storage_class, step.dns, step.expected) == ("local-path", "10.96.0.10", "10.96.0.1")
    off = planned(tmp_path, "storage: {localPath: {enabled: false}}").nodes["verify.probe.workloads"].step
    assert isinstance(off, ClusterProbed)
    assert off.storage_class == ""
    assert off.settings != step.settings
    assert planned(tmp_path, alone=True).nodes["verify.probe.workloads"].step.settings == ""  # type: ignore[attr-defined]


def test_the_pipeline_changes_nothing_if_it_only_looks(tmp_path: Path) -> None:
    assert pipeline_named("verify").changes
    only = pipeline_named("verify", probe=False)
    assert not only.changes
    graph = only.plan(context_of(cluster(), tmp_path).pipeline_context())
    assert all(node.startswith("verify.state") for node in graph.nodes)


def test_pods_ask_for_no_rights_and_the_scheduler_places_the_one_with_a_volume() -> None:
    objects = probe_objects("ns", sample_of(["a", "b"]), image="i", storage_class="c", taints=("gpu=true:NoSchedule",))
    pods = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Pod"}
    assert list(pods) == ["volume", "probe-0", "probe-1"]
    assert [pods[name].get("nodeName") for name in pods] == [None, "a", "b"]
    keys = [one["key"] for one in pods["volume"]["tolerations"]]
    assert keys == ["node-role.kubernetes.io/control-plane", "gpu"]
    for spec in pods.values():
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    none = probe_objects("ns", sample_of(["a"]), image="i", storage_class="", taints=())
    assert not [one for one in none if one["kind"] == "PersistentVolumeClaim"]


class Cluster:
    """A cluster that can be probed."""

    def __init__(self) -> None:
        self.api = KubeApi()
        self.api.other = self._answer
        self.deleted: list[str] = []
        self.record: dict[str, str] = {}
        self.broken = False
        self.waits: dict[str, str] = {}
        self.images = ""
        self.pods: list[dict[str, Any]] = []
        self.removed: list[str] = []

    def context(self, work_dir: Path, *, run: str = "run-1") -> StepContext:
        ctx = self.api.context(work_dir, run=run)
        for name in ("a", "b"):
            ctx.cache.set(HERE, True, name)
        return ctx

    def _answer(self, words: list[str], command: Command) -> str | tuple[int, str] | None:
        match words:
            case ["get", "node", *_]:
                return self.images
            case ["get", "storageclass", *_]:
                return "slow\tfalse\nfast\ttrue\n"
            case ["get", "events", *_]:
                return ""
            case ["wait", *_]:
                error = next((text for key, text in self.waits.items() if key in " ".join(words)), "")
                return (1, error) if error else "probe-0\t10.244.0.5\nprobe-1\t10.244.1.5\n"
            case ["exec", *_]:
                assert command.stdin is not None
                return self._said(command.stdin.decode())
            case ["delete", "pods", "--all", "-n", namespace, "--wait=true", *_]:
                assert namespace.startswith("kubexm-verify-")
                self.removed.append("pods")
                return ""
            case ["delete", "namespace", *rest]:
                self.removed.append("namespace")
                self.deleted.append(" ".join(rest[:2]))
                return ""
            case ["apply", *_]:
                assert command.stdin is not None
                for item in json.loads(command.stdin)["items"]:
                    if item["kind"] == "ConfigMap":
                        self.record = item["data"]
                        self.api.objects["", "ConfigMap", "kube-system", item["metadata"]["name"]] = item
                    self.pods += [item] if item["kind"] == "Pod" else []
                return "10.96.7.7" if "-o" in words else "applied"
        return None

    def _said(self, script: str) -> str:
        lines = []
        for line in script.splitlines():
            what, *rest = line.split(" ")
            if what not in ("dns", "pair", "service"):
                continue
            right: dict[str, dict[str, Any]] = {
                "dns": {"output": NSLOOKUP},
                "pair": {"responses": [f"probe-{rest[1]}"]},
                "service": {"responses": ["probe-0", "probe-1"]},
            }
            said = {"errors": ["i/o timeout"]} if self.broken and what == "pair" else right[what]
            lines.append(f"{what} {rest[0]} {rest[1]} {json.dumps(said)}")
        return "\n".join(lines)


def probed(**more: Any) -> ClusterProbed:
    given: dict[str, Any] = {"settings": "digest-1", "patience": 0.5, **more}
    return ClusterProbed(
        nodes=("a", "b"),
        image="agnhost:1",
        dns="10.96.0.10",
        name="kubernetes.default.svc",
        expected="10.96.0.1",
        **given,
    )


async def test_what_was_proven_is_not_proven_again_until_something_changes(tmp_path: Path) -> None:
    one = Cluster()
    ctx = one.context(tmp_path)
    assert (await probed().precheck(ctx)).reason == "these settings were not proven yet"
    await changed(ctx, probed())
    assert (await probed().precheck(ctx)).satisfied
    later = one.context(tmp_path, run="run-2")
    assert (await probed().precheck(later)).satisfied
    assert not (await probed(settings="digest-2").precheck(later)).satisfied
    later.cache.set(RUN_CHANGED, True)
    assert (await probed().precheck(later)).reason == "something was changed since it was proven"
    await changed(later, probed())
    assert (await probed().precheck(later)).satisfied, "it was proven after the change"


async def test_a_node_that_came_or_went_is_a_change(tmp_path: Path) -> None:
    one = Cluster()
    await changed(one.context(tmp_path), probed())
    fewer = one.api.context(tmp_path, run="run-2")
    fewer.cache.set(HERE, True, "a")
    assert not (await probed().precheck(fewer)).satisfied


async def test_asked_for_alone_it_is_tried_each_time_and_noted_nowhere(tmp_path: Path) -> None:
    one = Cluster()
    ctx = one.context(tmp_path)
    assert (await probed(settings="").precheck(ctx)).satisfied is None
    await changed(ctx, probed(settings=""))
    assert one.record == {}


async def test_alone_it_takes_the_image_the_cluster_has(tmp_path: Path) -> None:
    for images, used in (
        ("pause:3 agnhost@sha256:ab agnhost:2", "agnhost:2"),
        ("agnhost:2 agnhost:1", "agnhost:1"),
        ("pause:3 elsewhere/agnhost:3", "agnhost:1"),
    ):
        one = Cluster()
        one.images = images
        await changed(one.context(tmp_path), probed(settings=""))
        assert {pod["spec"]["containers"][0]["image"] for pod in one.pods} == {used}


async def test_what_is_brought_is_taken_away_and_so_is_what_was_left_behind(tmp_path: Path) -> None:
    one = Cluster()
    await changed(one.context(tmp_path), probed(storage_class="fast"))
    assert one.deleted == [f"-l {LABEL}"], "whoever's probe it was"
    assert sorted(one.api.verbs()) == ["apply", "apply", "delete", "delete", "exec", "wait", "wait"]
    assert one.removed == ["pods", "namespace"], "no pod is still terminating when the command returns"


async def test_after_a_failure_nothing_stays_and_nothing_counts_as_proven(tmp_path: Path) -> None:
    one = Cluster()
    one.broken = True
    with pytest.raises(StepError, match="a pod on a cannot reach a pod on b: i/o timeout") as caught:
        await changed(one.context(tmp_path), probed(traffic=("flannel's vxlan: UDP 8472",)))
    assert "(flannel's vxlan: UDP 8472)" in caught.value.hint
    assert one.deleted == [f"-l {LABEL}"]
    assert one.record == {}


async def test_pods_that_do_not_run_fail_it(tmp_path: Path) -> None:
    one = Cluster()
    one.waits = {"app=probe": "timed out waiting for the condition on pods/probe-1"}
    with pytest.raises(StepError, match="of 2 pods, one on each node, not all run"):
        await changed(one.context(tmp_path), probed())
    assert one.deleted == [f"-l {LABEL}"]


async def test_a_volume_that_is_not_written_fails_it(tmp_path: Path) -> None:
    one = Cluster()
    one.waits = {"pod/volume": "timed out waiting for the condition on pods/volume"}
    with pytest.raises(StepError, match="no volume was bound and written"):
        await changed(one.context(tmp_path), probed())
    assert one.deleted == [f"-l {LABEL}"]


async def test_a_namespace_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    one = Cluster()
    inner = one._answer

    def answer(words: list[str], command: Command) -> str | tuple[int, str] | None:
        if words[:2] == ["delete", "namespace"]:
            return 1, "Error: forbidden"
        return inner(words, command)

    one.api.other = answer
    with pytest.raises(CommandError, match="forbidden") as caught:
        await changed(one.context(tmp_path), probed())
    assert "kubectl delete namespace" in caught.value.hint


async def test_only_an_api_server_that_is_ready_is_well(tmp_path: Path) -> None:
    api = KubeApi()
    failed = b"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed"
    api.http.paths["/readyz"] = Answer(status=500, body=failed)
    step = ApiServerReady(patience=0.1)
    assert "[-]etcd failed" in (await step.precheck(api.context(tmp_path))).reason
    with pytest.raises(StepError, match="etcd failed") as caught:
        await step.run(api.context(tmp_path))
    assert caught.value.host == "n1"
    api.http.paths["/readyz"] = Answer(body=b"ok")
    assert (await step.precheck(api.context(tmp_path))).satisfied


async def test_in_create_an_api_server_that_says_it_is_ready_takes_no_credentials(tmp_path: Path) -> None:
    api = KubeApi()
    api.http.paths["/readyz"] = Answer(status=500, body=b"[-]etcd failed")
    api.connector.on(re.compile(r"(?s).*curl .*"), exit_code=22)
    api.connector.on(re.compile(r"(?s).*curl .*--cacert .* https://127\.0\.0\.1:6443/readyz$"), times=1)
    context = memory_context(
        tmp_path, {"n1": api.connector}, facts={"n1": replace(Facts.assumed(), commands=("curl",))}
    )
    ctx = context.step_context("x.y.z", UnitConnector(api.connector, Transcript), "run-1")
    step = ApiServerReady(port=6443, patience=0.1)
    assert (await step.precheck(ctx)).satisfied
    assert not api.http.calls
    assert "[-]etcd failed" in (await step.precheck(ctx)).reason
    assert planned(tmp_path).nodes["verify.state.api-servers"].step == ApiServerReady(port=6443, patience=180.0)
    alone = planned(tmp_path, alone=True).nodes["verify.state.api-servers"].step
    assert alone == ApiServerReady(patience=30.0), "whoever asks for proof hears it as the administrator"


def node(api: KubeApi, name: str, *, ready: bool = True) -> None:
    told = {"type": "Ready", "status": str(ready), "message": "" if ready else "cni plugin not initialized"}
    metadata = {"name": name, "uid": f"uid-{name}"}
    document = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"conditions": [told]}}
    api.objects["", "Node", "", name] = document


async def test_who_brings_the_network_is_told_what_is_left(tmp_path: Path) -> None:
    api = KubeApi()
    node(api, "a", ready=False)
    node(api, "b")
    ctx = api.context(tmp_path)
    assert (await NodesHealthy(nodes=("a", "b"), network=False).precheck(ctx)).satisfied
    [told] = ctx.warnings
    assert "a network plugin; a cannot be Ready without" in told
    assert (await NodesHealthy(nodes=("a", "b")).precheck(api.context(tmp_path))).reason == (
        "a is not Ready: cni plugin not initialized"
    )
    node(api, "a")
    ctx = api.context(tmp_path)
    assert (await NodesHealthy(nodes=("a", "b"), network=False).precheck(ctx)).satisfied
    assert ctx.warnings == []


@pytest.mark.parametrize(
    ("pod", "asked", "log"),
    [
        (False, "etcdctl .*--endpoints=https://127.0.0.1:2379 .*endpoint health", "journalctl -u etcd"),
        (True, "kubectl .*--server=https://127.0.0.1:2379 .*etcd/healthcheck-client.crt .* /health", "crictl logs"),
    ],
)
async def test_a_member_of_etcd_without_a_quorum_is_named(tmp_path: Path, pod: bool, asked: str, log: str) -> None:
    question = re.compile(f"(?s).*{asked}.*")
    connector = MemoryConnector("n1").on(question).on(question, exit_code=1, stderr="RAFT NO LEADER", times=2)
    context = memory_context(tmp_path, {"n1": connector})
    ctx = context.step_context("x.y.z", UnitConnector(connector, Transcript), "run-1")
    step = EtcdServes(url="https://127.0.0.1:2379", pod=pod, patience=0.1)
    assert "etcd on n1 has no quorum" in (await step.precheck(ctx)).reason
    with pytest.raises(StepError, match="no quorum or does not answer: RAFT NO LEADER") as caught:
        await step.run(ctx)
    assert log in caught.value.hint
    assert (await step.precheck(ctx)).satisfied


async def test_pods_of_the_control_plane_that_are_missing_or_not_ready_are_named(tmp_path: Path) -> None:
    api = KubeApi()
    labels = {"tier": "control-plane"}
    metadata = {"name": "kube-scheduler-a", "namespace": "kube-system", "uid": "p1", "labels": labels}
    status = {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": []}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "a"}, "status": status}
    api.objects["", "Pod", "kube-system", "kube-scheduler-a"] = pod
    step = ControlPlanePodsReady(pods=("kube-scheduler-a", "kube-apiserver-a"), patience=0.1)
    with pytest.raises(StepError, match="kube-apiserver-a is not there; pod kube-scheduler-a is not ready"):
        await step.run(api.context(tmp_path))
    assert len([call for call in api.http.calls if call.query.get("watch")]) == 1, "once, by watching"
