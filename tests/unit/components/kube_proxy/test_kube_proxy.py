"""kube-proxy: its settings by mode, kernel and version, as pods and as a unit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.api import ManifestsApplied
from kubexm.components.binary import BinaryControlPlane
from kubexm.components.host_files import FilesPresent
from kubexm.components.kube_proxy import KubeProxy
from kubexm.components.kube_proxy.config import health_port, manifests, settings, unit_file
from kubexm.components.milestones import API_READY
from kubexm.components.nodes import JoinedNodes
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment
from kubexm.redact import SecretRef
from kubexm.runner.facts.model import Kernel
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.step import ServiceRunning
from kubexm.task import FragmentBuilder, Task
from tests.unit.components.around import Others, Reached, cluster, context_of, graph_of

GOLDEN = Path(__file__).parent / "golden"
CLOSED = {"kernel": Kernel(release="6.1.0", conntrack_writable=False)}


def loaded(more: str = "") -> Cluster:
    return config.loads(cluster(more), name="test.yaml").cluster


def documents(text: str) -> dict[str, Any]:
    return {document["kind"]: document for document in YAML(typ="safe", pure=True).load_all(text)}


class _Api(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("api.all")
        g.add("ready", Reached(name="api"), on=ctx.hosts()[:1], provides=API_READY)
        return g.build()


class Api(Module):
    """A control plane that answers."""

    def tasks(self, ctx: ModuleContext) -> tuple[Task, ...]:
        return (_Api(),)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new text"


@pytest.mark.parametrize(
    "version", ["v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.1", "v1.36.0", "v1.37.1"]
)
def test_golden_pods(version: str) -> None:
    of = loaded(f"kubernetes: {{version: {version}}}")
    golden(
        f"pods-{version.rpartition('.')[0]}.yaml",
        manifests(of, f"reg.example.com/kube-proxy:{version}", tunes_conntrack=True),
    )


def test_the_mode_is_what_the_file_says() -> None:
    assert settings(loaded(), tunes_conntrack=True)["mode"] == "iptables"
    for mode in ("nftables", "ipvs"):
        assert settings(loaded(f"kubernetes: {{kubeProxy: {{mode: {mode}}}}}"), tunes_conntrack=True)["mode"] == mode


def test_a_connection_table_nobody_may_size_is_left_alone() -> None:
    assert "conntrack" not in settings(loaded(), tunes_conntrack=True)
    assert settings(loaded(), tunes_conntrack=False)["conntrack"] == {"maxPerCore": 0, "min": 0}
    more = "kubernetes: {kubeProxy: {config: {conntrack: {min: 7}}}}"
    assert settings(loaded(more), tunes_conntrack=False)["conntrack"] == {"maxPerCore": 0, "min": 7}


def test_pods_of_both_families() -> None:
    both = 'network: {podCIDR: "fd00:244::/56,10.244.0.0/16", serviceCIDR: "fd00:96::/108,10.96.0.0/16"}'
    text = cluster(both).replace(
        '"10.0.0.[11:13]"}', '"10.0.0.[11:13]", internalAddress: "10.0.0.[11:13],fd00::[11:13]"}'
    )
    text = text.replace('"10.0.0.[21:22]"}', '"10.0.0.[21:22]", internalAddress: "10.0.0.[21:22],fd00::[21:22]"}')
    found = settings(config.loads(text, name="test.yaml").cluster, tunes_conntrack=True)
    assert found["clusterCIDR"] == "fd00:244::/56,10.244.0.0/16"
    assert found["bindAddress"] == "::"


def test_gates_arguments_and_settings_of_the_user_get_there() -> None:
    proxy = "kubeProxy: {extraArgs: {v: 4}, config: {metricsBindAddress: 0.0.0.0}}"
    more = f"kubernetes: {{featureGates: {{B: true, A: false}}, {proxy}}}"
    of = loaded(more)
    found = settings(of, tunes_conntrack=True)
    assert list(found["featureGates"].items()) == [("A", False), ("B", True)]
    assert found["metricsBindAddress"] == "0.0.0.0"
    assert "--v=4" in unit_file(of, "n1")
    pod = documents(manifests(of, "image", tunes_conntrack=True))["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-1] == "--v=4"


def test_an_argument_is_no_variable_of_the_pod() -> None:
    of = loaded("kubernetes: {kubeProxy: {extraArgs: {vmodule: $(NODE_NAME)}}}")
    pod = documents(manifests(of, "image", tunes_conntrack=True))["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-1] == "--vmodule=$$(NODE_NAME)"


def test_pods_are_made_anew_only_when_their_settings_change() -> None:
    def digest(of: Cluster, tunes: bool = True) -> str:
        template = documents(manifests(of, "image", tunes_conntrack=tunes))["DaemonSet"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["kubexm.io/settings"])

    assert digest(loaded()) == digest(loaded("dns: {coredns: {replicas: 3}}"))
    assert digest(loaded()) != digest(loaded("kubernetes: {kubeProxy: {config: {iptables: {masqueradeAll: true}}}}"))
    assert digest(loaded()) != digest(loaded(), tunes=False)


@pytest.mark.parametrize(
    ("address", "port"), [("", 10256), ("'0.0.0.0:9999'", 9999), ("'[::]:80'", 80), ("''", 0), ("0.0.0.0", 10256)]
)
def test_where_it_says_whether_it_is_well(address: str, port: int) -> None:
    more = f"kubernetes: {{kubeProxy: {{config: {{healthzBindAddress: {address}}}}}}}" if address else ""
    assert health_port(loaded(more)) == port


def test_pods_are_applied_the_moment_the_api_answers(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path, {"w2": CLOSED})
    graph = link(Others, Api, KubeProxy).graph(context.pipeline_context(), name="test")
    nodes = [node for node in graph.nodes.values() if node.module == "kube-proxy"]
    assert [node.id for node in nodes] == ["kube-proxy.apply.manifests"]
    assert nodes[0].after == ("api.all.ready",)
    step = nodes[0].step
    assert isinstance(step, ManifestsApplied)
    assert "registry.k8s.io/kube-proxy:v1.34.4" in step.manifests
    assert "maxPerCore: 0" in step.manifests  # for one that cannot, all leave it


def test_units_start_when_their_node_has_joined(tmp_path: Path) -> None:
    context = context_of(cluster("kubernetes: {type: kubexm}"), tmp_path, {"w2": CLOSED})
    graph = graph_of(context, BinaryControlPlane, JoinedNodes, KubeProxy)
    start = graph.nodes["kube-proxy.run.start"]
    assert start.hosts == ("cp1", "cp2", "cp3", "w1", "w2")
    assert start.after == ()
    assert {"nodes.join.joined", "nodes.join.registered"} <= set(start.after_same_host)
    assert isinstance(start.step, ServiceRunning)
    written = graph.nodes["kube-proxy.run.settings"].step
    assert isinstance(written, FilesPresent)
    configs = {file.hosts: str(file.content) for file in written.files if file.path.name == "kube-proxy.yaml"}
    assert set(configs) == {("cp1", "cp2", "cp3", "w1"), ("w2",)}
    assert "maxPerCore" in configs["w2",]
    (secret,) = [file for file in written.files if isinstance(file.content, SecretRef)]
    assert (secret.content, secret.mode) == (SecretRef("kubeconfig.kube-proxy"), 0o600)


def test_health_is_not_asked_where_it_is_switched_off(tmp_path: Path) -> None:
    more = "kubernetes: {type: kubexm, kubeProxy: {config: {healthzBindAddress: ''}}}"
    graph = graph_of(context_of(cluster(more), tmp_path), BinaryControlPlane, JoinedNodes, KubeProxy)
    assert "kube-proxy.run.start" in graph.nodes
    assert "kube-proxy.run.healthy" not in graph.nodes
