"""What is planned for the operating system of hosts: the same bytes for the same file, and what the file asks for."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.hooks import HookRun
from kubexm.components.milestones import HOST_READY
from kubexm.components.os import Groundwork, HostPreparation
from kubexm.components.os.kernel import KernelTuned
from kubexm.components.os.steps import BaselineKept, FirewallOpen, HostPrepared
from kubexm.errors import PlanError
from kubexm.module import link, per_host
from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.runner import Opening
from kubexm.runner.facts.model import Security, Unit
from kubexm.runtime import RuntimeBuilder
from kubexm.step import HostsEntries, ModulesLoaded, PackagesInstalled, ServiceStopped
from tests.unit.components.preflight.fleet import Fleet, cluster

EXAMPLES = Path(__file__).parents[4] / "examples"
GOLDEN = Path(__file__).parent / "golden"
WITH_ETCD_HOST = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: prod}
spec:
  hosts:
    - {name: e1, address: 10.0.0.10}
    - {name: c1, address: 10.0.0.11}
    - {name: w1, address: 10.0.0.21}
    - {name: lb1, address: 10.0.0.31}
  roleGroups: {etcd: [e1], controlPlane: [c1], worker: [w1], loadbalancer: [lb1]}
"""


def plan(fleet: Fleet, work_dir: Path) -> dict[str, ExecutionNode]:
    """The nodes by the last part of their ids."""
    context = fleet.context(work_dir).pipeline_context()
    graph = per_host(Groundwork, link(HostPreparation)).graph(context, name="prepare")
    return {node.id.rpartition(".")[2]: node for node in graph.nodes.values()}


@pytest.mark.parametrize("example", ["single", "ha", "airgap"])
def test_golden(example: str) -> None:
    file = EXAMPLES / f"{example}.yaml"
    context = RuntimeBuilder(file, logger=logging.getLogger("test")).build_offline()
    joined = per_host(Groundwork, link(HostPreparation))
    graph = joined.graph(context.pipeline_context(), name="prepare")
    text = json.dumps(graph.to_dict(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path = GOLDEN / f"os-{example}.json"
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new plan"
    assert ExecutionGraph.from_dict(json.loads(text)).to_json() == graph.to_json()


def test_every_host_is_ready_once_all_that_concerns_it_is_done(tmp_path: Path) -> None:
    nodes = plan(Fleet(WITH_ETCD_HOST), tmp_path)
    ready = nodes["ready"]
    assert ready.provides == (HOST_READY,)
    assert ready.hosts == ("e1", "c1", "w1", "lb1")
    assert isinstance(ready.step, HostPrepared)
    others = {node.id for node in nodes.values() if node.id.startswith("os.")} - {ready.id}
    assert set(ready.after_same_host) == others
    assert all(not node.after for node in nodes.values()), "nobody waits for another host"


def test_groundwork_comes_before_anything_else_on_a_host(tmp_path: Path) -> None:
    nodes = plan(Fleet(cluster("system: {preInstall: [{name: mount data, run: mount -a, on: worker}]}")), tmp_path)
    hook, kept = nodes["mount-data"], nodes["baseline"]
    assert isinstance(kept.step, BaselineKept)
    assert kept.hosts == ("cp1", "cp2", "cp3", "w1", "w2")
    assert hook.hosts == ("w1", "w2")
    assert hook.after_same_host == (kept.id,)
    for name in ("packages", "swap", "hostname", "hosts-file", "limits"):
        assert {hook.id, kept.id} <= set(nodes[name].after_same_host), name
    assert nodes["packages"].id in nodes["firewall"].after_same_host


def test_hooks_run_in_order_and_as_the_file_says(tmp_path: Path) -> None:
    hooks = (
        "system:\n  preInstall:\n"
        "    - {name: Müll raus!, run: 'a', on: [cp1, w1], timeout: 10s, ignoreErrors: true}\n"
        "    - {name: second, run: 'b'}\n    - {name: second, run: 'c', on: controlPlane}\n    - {name: '…', run: d}\n"
    )
    nodes = plan(Fleet(cluster(hooks)), tmp_path)
    first, second, third, fourth = (nodes[name] for name in ("m-ll-raus", "second", "second-3", "hook-4"))
    assert (first.hosts, first.optional, first.timeout) == (("cp1", "w1"), True, 40.0)
    assert first.step == HookRun(name="Müll raus!", script="a", place="preInstall", within=10.0)
    assert second.hosts == ("cp1", "cp2", "cp3", "w1", "w2")
    assert not second.optional
    assert third.hosts == ("cp1", "cp2", "cp3")
    assert fourth.after_same_host == (nodes["baseline"].id, first.id, second.id, third.id)


@pytest.mark.parametrize(
    ("on", "hosts"),
    [
        ("'cp[2:3]'", ("cp2", "cp3")),
        ("group:worker", ("w1", "w2")),
        ("[group:worker, 'cp[1:2]']", ("cp1", "cp2", "w1", "w2")),
        ("group:all", ("cp1", "cp2", "cp3", "w1", "w2")),
    ],
)
def test_a_hook_runs_on_every_host_its_ranges_and_groups_mean(tmp_path: Path, on: str, hosts: tuple[str, ...]) -> None:
    hook = f"system: {{preInstall: [{{name: mine, run: 'a', on: {on}}}]}}"
    assert plan(Fleet(cluster(hook)), tmp_path)["mine"].hosts == hosts


def test_what_a_host_gets_depends_on_what_it_is_for(tmp_path: Path) -> None:
    fleet = Fleet(WITH_ETCD_HOST + "  system: {sysctl: {vm.swappiness: 1, kernel.panic: 30}, modules: [tun]}\n")
    nodes = plan(fleet, tmp_path)
    assert nodes["packages"].hosts == ("c1", "w1")
    plain, full = nodes["modules"], nodes["modules-2"]
    assert (plain.hosts, plain.step) == (("e1", "lb1"), ModulesLoaded(modules=("tun",)))
    assert full.hosts == ("c1", "w1")
    assert isinstance(full.step, ModulesLoaded)
    assert {"br_netfilter", "overlay", "tun"} <= set(full.step.modules)
    only_user, node = nodes["sysctl"].step, nodes["sysctl-2"].step
    assert isinstance(only_user, KernelTuned)
    assert isinstance(node, KernelTuned)
    assert only_user.values == {"kernel.panic": "30", "vm.swappiness": "1"}
    assert node.values["net.ipv4.ip_forward"] == "1"
    assert node.values["kernel.panic"] == "30", "the user's value wins"
    assert full.id in nodes["sysctl-2"].after_same_host
    assert "sysctl-none" not in nodes


def test_hosts_that_need_no_kernel_parameters_are_asked_for_what_was_wanted_once(tmp_path: Path) -> None:
    none = plan(Fleet(WITH_ETCD_HOST), tmp_path)["sysctl-none"]
    assert (none.hosts, none.step) == (("e1", "lb1"), KernelTuned(values={}))
    assert none.step.describe() == "no kernel parameters"


def test_directories_are_kept_where_the_cluster_writes(tmp_path: Path) -> None:
    text = WITH_ETCD_HOST + "  etcd: {dataDir: /srv/etcd}\n  storage: {localPath: {path: /srv/volumes}}\n"
    step = plan(Fleet(text), tmp_path)["baseline"].step
    assert isinstance(step, BaselineKept)
    by_host = {host: share for share in step.shares for host in share.hosts}
    assert "/srv/etcd" in by_host["e1"].directories
    assert "/var/lib/kubelet" not in by_host["e1"].directories
    assert {"/srv/volumes", "/var/lib/kubelet", "/opt/cni/bin"} <= set(by_host["w1"].directories)
    assert set(by_host["c1"].directories) - set(by_host["w1"].directories) == {"/var/log/kubernetes/audit"}
    assert "/lib/modules" in by_host["w1"].mount_points
    assert "/lib/modules" not in by_host["w1"].directories, "a new kernel's modules are not the cluster's"
    assert by_host["lb1"].parameters == ()


def test_everybody_knows_everybodys_name_and_the_endpoint(tmp_path: Path) -> None:
    step = plan(Fleet(), tmp_path)["hosts-file"].step
    assert isinstance(step, HostsEntries)
    assert step.entries[0] == ("127.0.0.1", ("lb.kubexm.local",))
    assert ("10.0.0.21", ("w1",)) in step.entries
    outside = cluster("controlPlaneEndpoint: {loadBalancer: external, address: 10.9.9.9, domain: api.example.com}")
    step = plan(Fleet(outside), tmp_path)["hosts-file"].step
    assert isinstance(step, HostsEntries)
    assert step.entries[0] == ("10.9.9.9", ("api.example.com",))


def test_what_the_user_does_not_want_is_not_planned(tmp_path: Path) -> None:
    text = cluster("system: {setHostname: false, manageHostsFile: false, disableSwap: false, firewall: keep}")
    nodes = plan(Fleet(text), tmp_path)
    assert {"hostname", "hosts-file", "swap", "firewall", "timezone", "time", "selinux"}.isdisjoint(nodes)
    bears = cluster("kubernetes: {kubelet: {config: {failSwapOn: false}}}")
    assert "swap" not in plan(Fleet(bears), tmp_path)


def test_packages_of_the_user_go_to_every_host(tmp_path: Path) -> None:
    fleet = Fleet(WITH_ETCD_HOST + "  system: {packages: [nfs-common, 'jq=1.6-2']}\n")
    nodes = plan(fleet, tmp_path)
    assert nodes["packages"].hosts == ("e1", "c1", "w1", "lb1")
    pinned = nodes["packages-pinned"]
    assert pinned.step == PackagesInstalled(packages=("jq=1.6-2",))
    assert pinned.hosts == ("e1", "c1", "w1", "lb1")


def test_a_time_service_is_brought_where_there_is_none(tmp_path: Path) -> None:
    fleet = Fleet(cluster("system: {ntpServers: [10.0.0.1], timezone: Europe/Vienna}"))
    for name in fleet.facts:
        fleet.part(name, "clock", service="").change(name, units=())
    fleet.change("w1", units=(Unit(name="chrony.service", active="inactive"),))
    fleet.change("w2", platform="systemd-nspawn")
    nodes = plan(fleet, tmp_path)
    assert nodes["time-package"].hosts == ("cp1", "cp2", "cp3")
    assert nodes["time"].hosts == ("cp1", "cp2", "cp3", "w1"), "a container has no clock of its own"
    assert nodes["time-package"].id in nodes["time"].after_same_host
    assert nodes["timezone"].hosts == ("cp1", "cp2", "cp3", "w1", "w2")


def test_ports_for_users_are_open_to_all_and_others_to_the_cluster(tmp_path: Path) -> None:
    step = plan(Fleet(WITH_ETCD_HOST), tmp_path)["firewall"].step
    assert isinstance(step, FirewallOpen)
    by_host = {host: set(openings) for hosts, openings in step.shares for host in hosts}
    assert Opening(port=6443) in by_host["c1"]
    assert Opening(port=6443) in by_host["lb1"]
    assert Opening(port=6443) not in by_host["w1"], "its balancer listens on 127.0.0.1"
    assert {(o.port, o.source) for o in by_host["e1"]} == {
        (port, source) for port in (2379, 2380) for source in ("10.0.0.10/31", "10.0.0.21/32", "10.0.0.31/32")
    }
    assert Opening(port=8472, protocol="udp", source="10.0.0.10/31") in by_host["w1"]
    assert Opening(port=30000, to=32767) in by_host["w1"]
    assert Opening.network("10.244.0.0/16") in by_host["w1"]


def test_many_scattered_hosts_do_not_make_a_rule_each(tmp_path: Path) -> None:
    text = cluster().replace('    - {name: "w[1:2]", address: "10.0.0.[21:22]"}\n', "")
    scattered = "".join(f"    - {{name: w{i}, address: 10.1.{i}.1}}\n" for i in range(1, 91))
    text = text.replace("  roleGroups:", scattered + "  roleGroups:").replace('"w[1:2]"', '"w[1:90]"')
    step = plan(Fleet(text), tmp_path)["firewall"].step
    assert isinstance(step, FirewallOpen)
    assert {opening.source for _, openings in step.shares for opening in openings} == {"", "10.244.0.0/16"}


def test_a_firewall_is_switched_off_where_one_is_on(tmp_path: Path) -> None:
    fleet = Fleet(cluster("system: {firewall: disable}")).change("cp1", "w1", firewall="firewalld")
    nodes = plan(fleet.change("w2", firewall="ufw"), tmp_path)
    assert nodes["firewall-firewalld"].hosts == ("cp1", "w1")
    assert nodes["firewall-ufw"].step == ServiceStopped(unit="ufw")
    assert "firewall" not in nodes


def test_selinux_is_told_where_there_is_any(tmp_path: Path) -> None:
    fleet = Fleet(cluster("system: {selinux: permissive}"))
    for name in fleet.facts:
        fleet.change(name, security=Security(selinux="disabled"))
    assert "selinux" not in plan(fleet, tmp_path)
    fleet.facts["w1"] = replace(fleet.facts["w1"], security=Security(selinux="enforcing"))
    assert plan(fleet, tmp_path)["selinux"].hosts == ("w1",)


def test_patterns_of_parameters_are_refused_with_what_to_write(tmp_path: Path) -> None:
    text = cluster("system: {sysctl: {net.ipv4.conf.*.rp_filter: 1}}")
    with pytest.raises(PlanError, match=r"net\.ipv4\.conf\.\*\.rp_filter") as caught:
        plan(Fleet(text), tmp_path)
    assert "net.ipv4.conf.all.rp_filter" in caught.value.hint
