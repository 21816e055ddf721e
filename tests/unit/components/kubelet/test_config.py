"""What the kubelet is told: golden for every version, and what cluster.yaml and facts change."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm.components.kubelet.config import (
    KERNEL,
    bootstrap_conf,
    cluster_dns,
    kubelet_conf,
    node_env,
    node_servers,
    registration,
    settings,
    unit_file,
)
from kubexm.components.os.wanted import kernel_parameters
from kubexm.runner import Facts
from kubexm.runner.facts.model import Network, Unit
from kubexm.runtime import Context
from tests.unit.components.around import SINGLE, cluster, context_of

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = ["v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.1", "v1.36.0", "v1.37.1"]


def config_of(context: Context, host: str, facts: Facts | None = None) -> dict[str, Any]:
    entry = next(one for one in context.hosts if one.name == host)
    text = settings(context.cluster, entry, facts or context.facts_of(host))
    loaded: dict[str, Any] = YAML(typ="safe").load(text)
    return loaded


@pytest.mark.parametrize("version", VERSIONS)
def test_golden(version: str, tmp_path: Path) -> None:
    context = context_of(cluster(f"kubernetes: {{version: {version}}}", hosts=SINGLE), tmp_path)
    task = context.pipeline_context().for_module().for_task()
    (host,) = context.hosts
    parts = (
        settings(context.cluster, host, context.facts_of("n1")),
        registration(host),
        node_env(task, host),
        unit_file(context.cluster),
    )
    text = "\n".join(parts)
    path = GOLDEN / f"kubelet-{version.rpartition('.')[0]}.txt"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new settings"


def test_what_the_user_sets_wins_and_a_null_removes(tmp_path: Path) -> None:
    wanted = "{maxPods: 200, authentication: {webhook: {cacheTTL: 5m}}, seccompDefault: null}"
    more = f"kubernetes: {{kubelet: {{config: {wanted}}}}}"
    found = config_of(context_of(cluster(more), tmp_path), "w1")
    assert found["maxPods"] == 200
    assert found["authentication"]["webhook"] == {"enabled": True, "cacheTTL": "5m"}
    assert found["authentication"]["anonymous"] == {"enabled": False}
    assert "seccompDefault" not in found


def test_feature_gates_reach_the_kubelet(tmp_path: Path) -> None:
    found = config_of(context_of(cluster("kubernetes: {featureGates: {NodeSwap: true}}"), tmp_path), "w1")
    assert found["featureGates"] == {"NodeSwap": True}


def test_static_pods_only_where_kubeadm_puts_some(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path / "a")
    assert config_of(context, "cp1")["staticPodPath"] == "/etc/kubernetes/manifests"
    assert "staticPodPath" not in config_of(context, "w1")
    binary = context_of(cluster("kubernetes: {type: kubexm}"), tmp_path / "b")
    assert "staticPodPath" not in config_of(binary, "cp1")


@pytest.mark.parametrize(
    ("version", "cgroup", "told"), [("v1.34.4", 1, None), ("v1.35.1", 1, False), ("v1.35.1", 2, None)]
)
def test_control_groups_of_version_1_are_let_pass_where_they_would_not_be(
    version: str, cgroup: int, told: bool | None, tmp_path: Path
) -> None:
    context = context_of(cluster(f"kubernetes: {{version: {version}}}"), tmp_path)
    assert config_of(context, "w1", replace(context.facts_of("w1"), cgroup=cgroup)).get("failCgroupV1") is told


def test_pods_are_given_the_name_servers_behind_a_stub(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path)
    facts = context.facts_of("w1")
    stub = replace(facts, network=replace(facts.network, nameservers=("127.0.0.53",)))
    running = replace(stub, units=(Unit(name="systemd-resolved.service", active="active"),))
    assert config_of(context, "w1", facts)["resolvConf"] == "/etc/resolv.conf"
    assert config_of(context, "w1", stub)["resolvConf"] == "/etc/resolv.conf"
    assert config_of(context, "w1", running)["resolvConf"] == "/run/systemd/resolve/resolv.conf"
    assert config_of(context, "w1", replace(running, network=Network()))["resolvConf"] == "/etc/resolv.conf"


def test_the_kernel_is_protected_unless_the_file_wants_it_otherwise(tmp_path: Path) -> None:
    assert config_of(context_of(cluster(), tmp_path / "a"), "w1")["protectKernelDefaults"] is True
    same = context_of(cluster("system: {sysctl: {vm.overcommit_memory: 1}}"), tmp_path / "b")
    assert config_of(same, "w1")["protectKernelDefaults"] is True
    other = context_of(cluster("system: {sysctl: {vm.overcommit_memory: 2}}"), tmp_path / "c")
    assert config_of(other, "w1")["protectKernelDefaults"] is False


def test_what_the_kubelet_insists_on_is_what_hosts_are_prepared_with(tmp_path: Path) -> None:
    context = context_of(cluster(), tmp_path)
    assert KERNEL.items() <= kernel_parameters(context.cluster, context.hosts[0]).items()


def test_taints_are_there_from_the_first_moment(tmp_path: Path) -> None:
    text = cluster().replace(
        '"10.0.0.[21:22]"}', '"10.0.0.[21:22]", taints: ["gpu=true:NoSchedule", "slow:NoExecute"]}'
    )
    context = context_of(text, tmp_path)
    hosts = {host.name: YAML(typ="safe").load(registration(host))["registerWithTaints"] for host in context.hosts}
    assert hosts["cp1"] == [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    assert hosts["w1"] == [
        {"key": "gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "slow", "effect": "NoExecute"},
    ]
    single = context_of(cluster(hosts=SINGLE), tmp_path / "single").hosts[0]
    assert YAML(typ="safe").load(registration(single))["registerWithTaints"] == []


def test_both_addresses_of_a_dual_stack_host(tmp_path: Path) -> None:
    text = cluster('network: {podCIDR: "10.244.0.0/16,fd00:244::/56", serviceCIDR: "10.96.0.0/16,fd00:96::/108"}')
    text = text.replace(
        '{name: "w[1:2]", address: "10.0.0.[21:22]"}',
        '{name: w1, address: 10.0.0.21, internalAddress: "10.0.0.21,fd00::21"}',
    )
    text = text.replace('worker: ["w[1:2]"]', "worker: [w1]").replace(
        '"10.0.0.[11:13]"', '"10.0.0.[11:13]", internalAddress: "10.0.0.11,fd00::11"'
    )
    text = text.replace('"cp[1:3]"', '"cp1"').replace('"10.0.0.[11:13]"', '"10.0.0.11"')
    context = context_of(text, tmp_path)
    task = context.pipeline_context().for_module().for_task()
    host = next(one for one in context.hosts if one.name == "w1")
    assert node_env(task, host) == "KUBELET_NODE_ARGS=--hostname-override=w1 --node-ip=10.0.0.21,fd00::21\n"
    assert cluster_dns(context.cluster) == "10.96.0.10"


def test_arguments_of_the_user_stand_in_the_unit_as_they_are(tmp_path: Path) -> None:
    more = "kubernetes: {kubelet: {extraArgs: {v: 4, node-labels: ['a=b', '$HOME=100% \"x\"']}}}"
    text = unit_file(context_of(cluster(more), tmp_path).cluster)
    assert '    --node-labels=a=b \\\n    "--node-labels=$$HOME=100%% \\"x\\"" \\\n    --v=4\n' in text


def test_control_planes_use_their_own_api_server_and_others_the_endpoint(tmp_path: Path) -> None:
    assert node_servers(context_of(cluster(), tmp_path / "a").cluster) == (
        "https://lb.kubexm.local:6443",
        "https://127.0.0.1:6443",
    )
    more = "controlPlaneEndpoint: {loadBalancer: external, address: 10.9.9.9, domain: '', port: 8443}"
    assert node_servers(context_of(cluster(more), tmp_path / "b").cluster) == (
        "https://10.9.9.9:8443",
        "https://127.0.0.1:8443",
    )


def test_kubeconfigs_name_the_certificate_or_hold_the_token() -> None:
    joined = YAML(typ="safe").load(kubelet_conf("n1", "https://lb:6443"))
    assert joined["users"] == [
        {
            "name": "system:node:n1",
            "user": {
                "client-certificate": "/var/lib/kubelet/pki/kubelet-client-current.pem",
                "client-key": "/var/lib/kubelet/pki/kubelet-client-current.pem",
            },
        }
    ]
    assert joined["clusters"][0]["cluster"]["server"] == "https://lb:6443"
    joining = YAML(typ="safe").load(bootstrap_conf("https://lb:6443", "abcdef.0123456789abcdef"))
    assert joining["users"][0]["user"] == {"token": "abcdef.0123456789abcdef"}
