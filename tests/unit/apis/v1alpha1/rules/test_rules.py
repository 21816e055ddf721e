"""Every rule that spans fields: what breaks it, where it points, and that the file without the break is fine."""

from __future__ import annotations

from typing import Any

import pytest

from kubexm.apis.v1alpha1 import check
from kubexm.apis.v1alpha1.rules import dotted
from tests.unit.config.files import HA, MINIMAL, cluster

Found = list[tuple[str, str]]


def errors(change: dict[str, Any], base: str = HA) -> Found:
    return [(dotted(found.path), found.message) for found in check(cluster(change, base=base)) if not found.warning]


def warnings(change: dict[str, Any], base: str = HA) -> Found:
    return [(dotted(found.path), found.message) for found in check(cluster(change, base=base)) if found.warning]


@pytest.mark.parametrize("base", [HA, MINIMAL], ids=["ha", "minimal"])
def test_the_plain_files_break_no_rule(base: str) -> None:
    assert check(cluster(base=base)) == []


def host(name: str, address: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, **({"address": address} if address else {}), **more}


CP = host("cp[1:3]", "10.0.0.[11:13]")
W = host("w[01:03]", "10.0.0.[21:23]")


@pytest.mark.parametrize(
    ("hosts", "where", "said"),
    [
        (
            [CP, host("w[01:03]", "10.0.0.[21:24]")],
            "spec.hosts[1].address",
            "stands for 4 addresses, but `w[01:03]` for 3 hosts",
        ),
        ([CP, host("w[01:03]", "10.0.0.21")], "spec.hosts[1].address", "stands for one address, but"),
        (
            [CP, host("w[01:03]", "10.0.0.[21:23]", internalAddress="10.1.0.[1:2]")],
            "spec.hosts[1].internalAddress",
            "stands for 2 addresses",
        ),
        ([CP, host("w[01:03]")], "spec.hosts[1]", "`w[01:03]` has no address"),
        ([CP, W, host("x", type="local"), host("y", type="local")], "spec.hosts[3].type", "only one host can be"),
        ([CP, W, host("x[1:2]", type="local")], "spec.hosts[2].type", "only one host can be"),
        ([CP, W, host("w02", "10.0.0.99")], "spec.hosts[2].name", "w02: already defined at spec.hosts[1]"),
        ([CP, W, host("x", "10.0.0.22")], "spec.hosts[2].address", "`x` has the same address as `w02` (10.0.0.22)"),
        (
            [CP, W, host("x", "fd00::1"), host("y", "fd00:0::1")],
            "spec.hosts[3].address",
            "`y` has the same address as `x`",
        ),
        (
            [CP, W, host("x", "10.9.0.1", internalAddress="10.0.0.21")],
            "spec.hosts[2].internalAddress",
            "same internal address: `x` and `w01` (10.0.0.21)",
        ),
        (
            [CP, W, host("x", "10.9.0.1", internalAddress="0.0.0.0")],
            "spec.hosts[2].internalAddress",
            "cannot be the address",
        ),
        (
            [CP, W, host("x", "10.9.0.1", privateKey="env:K", privateKeyPath="./k")],
            "spec.hosts[2].privateKey",
            "exclude each other",
        ),
        ([CP, W, host("x", "10.9.0.1", privateKey="prompt")], "spec.hosts[2].privateKey", "cannot be typed"),
        (
            [CP, W, host("x", "10.9.0.1", privateKeyPassphrase="prompt")],
            "spec.hosts[2].privateKeyPassphrase",
            "no private key that it belongs to",
        ),
        (
            [CP, W, host("x", "10.9.0.1", taints=["a=1:NoSchedule", "a=2:NoSchedule"])],
            "spec.hosts[2].taints[1]",
            "the second",
        ),
    ],
)
def test_hosts(hosts: list[dict[str, Any]], where: str, said: str) -> None:
    found = errors({"hosts": hosts})
    assert [path for path, _ in found] == [where], found
    assert said in found[0][1]


def test_no_hosts_at_all() -> None:
    assert ("spec.hosts", "there are no hosts") in errors({"hosts": []})


def test_the_same_address_on_another_port_is_doubtful_only() -> None:
    hosts = [CP, W, host("x", "10.9.0.1", port=2201), host("y", "10.9.0.1", port=2202)]
    roles = {"worker": ["w[01:03]", "x", "y"]}
    assert errors({"hosts": hosts, "roleGroups": roles}) == []
    (found,) = warnings({"hosts": hosts, "roleGroups": roles})
    assert found == ("spec.hosts[3].address", "hosts with the same address on different ports: `y` and `x` (10.9.0.1)")


def test_the_same_address_behind_another_bastion_is_another_host() -> None:
    hosts = [CP, W, host("x", "10.0.0.21", bastion=[{"address": "203.0.113.1"}], internalAddress="10.9.0.1")]
    assert errors({"hosts": hosts}) == []


def test_one_host_key_for_many_hosts_is_doubtful() -> None:
    hosts = [CP, host("w[01:03]", "10.0.0.[21:23]", hostKey="SHA256:" + "a" * 43)]
    assert [path for path, _ in warnings({"hosts": hosts})] == ["spec.hosts[1].hostKey"]


def test_a_host_without_a_role_is_doubtful() -> None:
    hosts = [CP, W, host("spare", "10.9.0.1")]
    said = "spare has no role: only what spec.system says is done there"
    assert warnings({"hosts": hosts}) == [("spec.hosts[2].name", said)]


def test_labels_and_taints_need_a_node() -> None:
    hosts = [CP, W, host("lb", "10.9.0.1", labels={"a": "b"}, taints=["a:NoSchedule"])]
    found = warnings({"hosts": hosts, "roleGroups": {"loadbalancer": ["lb"]}})
    assert found == [
        ("spec.hosts[2].labels", "`labels` have no effect: lb is no node of Kubernetes"),
        ("spec.hosts[2].taints", "`taints` have no effect: lb is no node of Kubernetes"),
    ]


def test_a_host_called_like_a_group_is_doubtful() -> None:
    hosts = [CP, W, host("worker", "10.9.0.1")]
    found = warnings({"hosts": hosts, "roleGroups": {"worker": ["w[01:03]", "worker"]}})
    assert [path for path, _ in found] == ["spec.hosts[2].name"]


@pytest.mark.parametrize(
    ("groups", "where", "said", "hint"),
    [
        ({"worker": ["w[01:04]"]}, "spec.roleGroups.worker[0]", "no host is called `w04`", "did you mean `w03`?"),
        ({"worker": ["w01", "w2"]}, "spec.roleGroups.worker[1]", "no host is called `w2`", "did you mean `w02`?"),
        (
            {"worker": ["controlPlane"]},
            "spec.roleGroups.worker[0]",
            "no host is called",
            "did you mean `group:controlPlane`?",
        ),
        (
            {"worker": ["w01", "group:controlplane"]},
            "spec.roleGroups.worker[1]",
            "no group is called",
            "did you mean `controlPlane`?",
        ),
        ({"workers": ["w01"]}, "spec.roleGroups.workers", "is no role", "did you mean `worker`?"),
        ({"masters": ["cp1"]}, "spec.roleGroups.masters", "is no role", "did you mean `controlPlane`?"),
        ({"loadBalancer": ["w01"]}, "spec.roleGroups.loadBalancer", "is no role", "did you mean `loadbalancer`?"),
        ({"all": ["w01"]}, "spec.roleGroups.all", "`all` stands for every host", ""),
        ({"a": ["group:b"], "b": ["group:a"]}, "spec.roleGroups.b[0]", "a → b → a", "remove one of these memberships"),
        ({"a": ["group:a"]}, "spec.roleGroups.a[0]", "a → a", "remove one of these memberships"),
        (
            {"worker": []},
            "spec.roleGroups.worker",
            "no host is a worker, so no pod could run",
            "control planes may be named",
        ),
        ({"controlPlane": []}, "spec.roleGroups.controlPlane", "no host is a control plane", "name at least one"),
        ({"etcd": []}, "spec.roleGroups.etcd", "the control plane has no etcd", "one, three or five"),
        ({"registry": ["w01"]}, "spec.roleGroups.registry", "cannot install a registry yet", "spec.registry"),
        (
            {"loadbalancer": ["cp1", "w01"]},
            "spec.roleGroups.loadbalancer",
            "cp1: a control plane cannot be",
            "no control planes",
        ),
    ],
)
def test_role_groups(groups: dict[str, Any], where: str, said: str, hint: str) -> None:
    found = [one for one in check(cluster({"roleGroups": groups})) if not one.warning]
    assert [dotted(one.path) for one in found] == [where], found
    assert said in found[0].message
    assert hint in found[0].hint


def test_a_cycle_is_reported_once_with_its_path() -> None:
    groups = {"worker": ["w01", "group:a"], "a": ["group:b"], "b": ["group:c"], "c": ["group:a", "w02"]}
    found = errors({"roleGroups": groups})
    assert found == [("spec.roleGroups.c[0]", "groups contain each other: a → b → c → a")]


@pytest.mark.parametrize(("count", "warns"), [(1, False), (2, True), (3, False), (4, True), (5, False), (9, True)])
def test_an_even_or_large_number_of_etcd_members_is_doubtful(count: int, warns: bool) -> None:
    names = [f"h{number}" for number in range(1, count + 1)]
    change = {
        "hosts": [host(f"h[1:{count}]" if count > 1 else "h1", f"10.0.0.[1:{count}]" if count > 1 else "10.0.0.1")],
        "roleGroups": {"etcd": names, "controlPlane": names, "worker": names},
    }
    assert errors(change) == []
    assert [path for path, _ in warnings(change)] == (["spec.roleGroups.etcd"] if warns else [])


EXTERNAL = {"endpoints": ["https://10.5.0.1:2379"], "caFile": "ca", "certFile": "crt", "keyFile": "key"}


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ({"etcd": {"type": "kubeadm"}, "roleGroups": {"etcd": ["cp1"]}}, "spec.roleGroups.etcd", "these lists differ"),
        (
            {"etcd": {"type": "kubeadm"}, "kubernetes": {"type": "kubexm"}},
            "spec.etcd.type",
            "needs `kubernetes.type: kubeadm`",
        ),
        ({"etcd": {"type": "external", "external": EXTERNAL}}, "spec.roleGroups.etcd", "kubexm installs no etcd"),
        (
            {"etcd": {"type": "external", "external": {**EXTERNAL, "endpoints": []}}, "roleGroups": {"etcd": []}},
            "spec.etcd.external.endpoints",
            "needs `external.endpoints`",
        ),
        (
            {"kubernetes": {"type": "kubexm", "scheduler": {"patch": {"a": 1}}}},
            "spec.kubernetes.scheduler.patch",
            "no static pod to patch",
        ),
        (
            {"kubernetes": {"containerRuntime": {"version": "1.6.0"}}},
            "spec.kubernetes.containerRuntime.version",
            "too old",
        ),
        (
            {"kubernetes": {"version": "v1.36.0", "containerRuntime": {"version": "1.7.20"}}},
            "spec.kubernetes.containerRuntime.version",
            "it needs v2.0.0 or newer",
        ),
        ({"etcd": {"version": "3.4.30"}}, "spec.etcd.version", "it needs v3.5.0 or newer"),
        (
            {"kubernetes": {"version": "v1.30.4", "kubeProxy": {"mode": "nftables"}}},
            "spec.kubernetes.kubeProxy.mode",
            "has no nftables mode",
        ),
        (
            {"kubernetes": {"apiServer": {"extraArgs": {"service-cluster-ip-range": "10.0.0.0/16"}}}},
            "spec.kubernetes.apiServer.extraArgs.service-cluster-ip-range",
            "kubexm sets `service-cluster-ip-range` itself",
        ),
        ({"etcd": {"extraArgs": {"data-dir": "/x"}}}, "spec.etcd.extraArgs.data-dir", "kubexm sets `data-dir` itself"),
        (
            {"kubernetes": {"kubelet": {"config": {"clusterDomain": "x"}}}},
            "spec.kubernetes.kubelet.config.clusterDomain",
            "kubexm sets `clusterDomain` itself",
        ),
        (
            {"kubernetes": {"kubelet": {"config": {"registerWithTaints": []}}}},
            "spec.kubernetes.kubelet.config.registerWithTaints",
            "kubexm sets `registerWithTaints` itself",
        ),
        (
            {"kubernetes": {"kubeProxy": {"config": {"mode": "ipvs"}}}},
            "spec.kubernetes.kubeProxy.config.mode",
            "kubexm sets `mode` itself",
        ),
        (
            {"kubernetes": {"kubeProxy": {"extraArgs": {"masquerade-all": True}}}},
            "spec.kubernetes.kubeProxy.extraArgs.masquerade-all",
            "`masquerade-all` would do nothing",
        ),
        (
            {"kubernetes": {"scheduler": {"extraArgs": {"kube-api-qps": 100}}}},
            "spec.kubernetes.scheduler.extraArgs.kube-api-qps",
            "ignores `kube-api-qps`",
        ),
        (
            {"kubernetes": {"scheduler": {"extraArgs": {"config": "/x"}}}},
            "spec.kubernetes.scheduler.extraArgs.config",
            "kubexm sets `config` itself",
        ),
        (
            {"etcd": {"type": "kubeadm", "backup": {"schedule": "0 3 * * *"}}},
            "spec.etcd.backup",
            "cannot take snapshots with `etcd.type: kubeadm`",
        ),
        (
            {
                "etcd": {"type": "external", "external": EXTERNAL, "backup": {"keep": 3}},
                "roleGroups": {"etcd": []},
            },
            "spec.etcd.backup",
            "cannot take snapshots with `etcd.type: external`",
        ),
        ({"certs": {"duration": "99999h"}}, "spec.certs.duration", "longer than the CA"),
        ({"etcd": {"tuning": {"electionTimeout": "1s"}}}, "spec.etcd.tuning.electionTimeout", "at least five"),
        (
            {"kubernetes": {"audit": {"policy": {"omitStages": []}}}},
            "spec.kubernetes.audit.policy",
            "a list of `rules`",
        ),
        ({"assets": {"sources": []}}, "spec.assets.sources", "no source"),
        (
            {"assets": {"sources": [{"bundle": "x", "upstream": True}]}},
            "spec.assets.sources[0]",
            "has bundle and upstream",
        ),
        ({"assets": {"sources": [{}]}}, "spec.assets.sources[0]", "has none"),
        ({"addons": [{"name": "x"}]}, "spec.addons[0]", "needs either manifests or a chart"),
        (
            {"addons": [{"name": "x", "manifests": ["a"], "chart": {"path": "b"}}]},
            "spec.addons[0]",
            "needs either manifests or a chart",
        ),
        (
            {"addons": [{"name": "x", "manifests": ["a"]}, {"name": "x", "manifests": ["b"]}]},
            "spec.addons[1].name",
            "already defined at spec.addons[0]",
        ),
        (
            {"system": {"preInstall": [{"name": "x", "run": "true", "on": ["worker", "workr"]}]}},
            "spec.system.preInstall[0].on[1]",
            "no group or host is called `workr`",
        ),
        (
            {"system": {"preInstall": [{"name": "x", "run": "true", "on": "w[01:04]"}]}},
            "spec.system.preInstall[0].on[0]",
            "no group or host is called `w04`",
        ),
        (
            {"system": {"preInstall": [{"name": "x", "run": "true", "on": "group:w01"}]}},
            "spec.system.preInstall[0].on[0]",
            "no group is called `w01`",
        ),
    ],
)
def test_combinations(change: dict[str, Any], where: str, said: str) -> None:
    found = errors(change)
    assert [path for path, _ in found] == [where], found
    assert said in found[0][1]


@pytest.mark.parametrize(
    "change",
    [
        {"etcd": {"type": "kubeadm"}, "roleGroups": {"etcd": []}},
        {"etcd": {"type": "kubeadm"}},
        {"etcd": {"type": "external", "external": EXTERNAL}, "roleGroups": {"etcd": []}},
        {"kubernetes": {"type": "kubexm"}},
        {"kubernetes": {"version": "v1.36.1", "containerRuntime": {"version": "2.0.0"}}},
        {"roleGroups": {"worker": ["group:controlPlane"]}, "hosts": [CP]},
        {"network": {"plugin": "none"}},
        {"kubernetes": {"kubeProxy": {"extraArgs": {"v": 4}, "config": {"iptables": {"masqueradeAll": True}}}}},
        {"kubernetes": {"scheduler": {"extraArgs": {"leader-elect-lease-duration": "30s"}}}},
        {"etcd": {"backup": {"schedule": "0 3 * * *"}}},
        {"controlPlaneEndpoint": {"loadBalancer": "external", "address": "10.0.0.100"}},
        {"roleGroups": {"loadbalancer": ["w01"]}},
        {"system": {"postInstall": [{"name": "x", "run": "true", "on": ["all", "w01", "cp[1:2]", "group:worker"]}]}},
    ],
)
def test_combinations_that_work(change: dict[str, Any]) -> None:
    assert check(cluster(change)) == []


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        ({"network": {"serviceCIDR": "10.244.16.0/20"}}, "spec.network.serviceCIDR", "overlaps podCIDR 10.244.0.0/16"),
        ({"network": {"podCIDR": "10.0.0.0/16"}}, "spec.network.podCIDR", "cp1 (10.0.0.11), cp2 (10.0.0.12)"),
        ({"network": {"serviceCIDR": "10.0.0.0/24"}}, "spec.network.serviceCIDR", "and 2 more"),
        (
            {"network": {"podCIDR": "10.244.0.0/16,fd00::/56"}},
            "spec.network.serviceCIDR",
            "is IPv4, but podCIDR is IPv4 and IPv6",
        ),
        ({"network": {"serviceCIDR": "10.0.0.0/8"}}, "spec.network.serviceCIDR", "wider than Kubernetes allows"),
        ({"network": {"serviceCIDR": "10.96.0.0/29"}}, "spec.network.serviceCIDR", "too small"),
        ({"network": {"podCIDR": "10.244.0.0/25"}}, "spec.network.nodeMaskV4", "does not fit podCIDR"),
        (
            {"network": {"podCIDR": "10.244.0.0/22"}},
            "spec.network.podCIDR",
            "has room for 4 nodes of /24 each; there are 6",
        ),
        (
            {"controlPlaneEndpoint": {"loadBalancer": "external"}},
            "spec.controlPlaneEndpoint.address",
            "needs its address",
        ),
        ({"controlPlaneEndpoint": {"domain": ""}}, "spec.controlPlaneEndpoint.domain", "needs a name"),
        ({"controlPlaneEndpoint": {"domain": "api.cluster.local"}}, "spec.controlPlaneEndpoint.domain", "own domain"),
        ({"controlPlaneEndpoint": {"address": "10.96.0.5"}}, "spec.controlPlaneEndpoint.address", "inside serviceCIDR"),
        ({"controlPlaneEndpoint": {"port": 10250}}, "spec.controlPlaneEndpoint.port", "used by the kubelet"),
        ({"controlPlaneEndpoint": {"port": 30443}}, "spec.controlPlaneEndpoint.port", "inside serviceNodePorts"),
        ({"etcd": {"clientPort": 6443}}, "spec.etcd.clientPort", "used by the API server"),
        ({"etcd": {"peerPort": 2379}}, "spec.etcd.peerPort", "used by etcd's clients"),
    ],
)
def test_networks(change: dict[str, Any], where: str, said: str) -> None:
    found = [pair for pair in errors(change) if said in pair[1]]
    assert [path for path, _ in found] == [where], errors(change)


def test_dual_stack_needs_both_addresses_on_every_node() -> None:
    network = {"podCIDR": "10.244.0.0/16,fd00:244::/56", "serviceCIDR": "10.96.0.0/16,fd00:96::/112"}
    (found,) = errors({"network": network})
    assert found[1].startswith("pods are to have IPv6 addresses, but these hosts have none: cp1, cp2")
    hosts = [
        {**CP, "internalAddress": "10.0.0.[11:13],fd00:1::[11:13]"},
        {**W, "internalAddress": "10.0.0.[21:23],fd00:1::[21:23]"},
    ]
    assert check(cluster({"network": network, "hosts": hosts})) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"kubernetes": {"kubelet": {"config": {"maxPods": 300}}}}, "spec.kubernetes.kubelet.config.maxPods"),
        ({"kubernetes": {"version": "v1.35.0", "kubeProxy": {"mode": "ipvs"}}}, "spec.kubernetes.kubeProxy.mode"),
        (
            {"kubernetes": {"apiServer": {"extraArgs": {"oidc-issuer-url": "https://a.example.com"}}}},
            "spec.kubernetes.apiServer.extraArgs.oidc-issuer-url",
        ),
        ({"etcd": {"external": {"caFile": "x"}}}, "spec.etcd.external"),
        (
            {"controlPlaneEndpoint": {"loadBalancer": "external", "address": "10.0.0.11"}},
            "spec.controlPlaneEndpoint.address",
        ),
        ({"network": {"flannel": {"backend": "host-gw", "directRouting": True}}}, "spec.network.flannel.directRouting"),
        ({"network": {"flannel": {"backend": "host-gw", "vni": 7}}}, "spec.network.flannel.vni"),
        ({"network": {"plugin": "none", "mtu": 1400}}, "spec.network.mtu"),
        ({"network": {"plugin": "none", "flannel": {"port": 4789}}}, "spec.network.flannel"),
        (
            {
                "etcd": {"type": "external", "external": EXTERNAL, "tuning": {"quotaBackend": "4Gi"}},
                "roleGroups": {"etcd": []},
            },
            "spec.etcd.tuning",
        ),
        (
            {
                "controlPlaneEndpoint": {"loadBalancer": "external", "address": "1.2.3.4"},
                "roleGroups": {"loadbalancer": ["w01"]},
            },
            "spec.roleGroups.loadbalancer",
        ),
        (
            {"system": {"postInstall": [{"name": "x", "run": "true", "on": "loadbalancer"}]}},
            "spec.system.postInstall[0].on[0]",
        ),
    ],
)
def test_doubtful_but_allowed(change: dict[str, Any], where: str) -> None:
    assert errors(change) == []
    assert [path for path, _ in warnings(change)] == [where]


def test_a_rule_is_left_out_if_what_it_needs_is_damaged() -> None:
    broken = cluster({"network": {"serviceCIDR": "10.244.16.0/20"}})
    assert check(broken)
    assert check(broken, [("spec", "network", "podCIDR")]) == []
    assert check(broken, [("spec", "network")]) == []
    assert check(broken, [("spec", "dns")])


def test_a_damaged_field_of_a_host_does_not_silence_rules_about_names() -> None:
    broken = cluster({"roleGroups": {"worker": ["w09"]}})
    assert check(broken, [("spec", "hosts", 0, "port")])
    assert check(broken, [("spec", "hosts", 0, "name")]) == []
    assert check(broken, [("spec", "hosts", 0)]) == []
