"""Each check, as a user meets it: facts in, a finding with its remedy out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.preflight.network import NamesResolve
from kubexm.plan import RunStatus, State
from kubexm.runner import ClusterMarker, Facts
from kubexm.runner.facts.model import (
    Clock,
    Cpu,
    Filesystem,
    Interface,
    Kernel,
    Memory,
    Os,
    Port,
    Presence,
    Route,
    Security,
    SwapDevice,
    Systemd,
    Unit,
)
from kubexm.runtime import Transcript, UnitConnector
from tests.unit.components.preflight.fleet import Fleet, cluster
from tests.unit.step.bench import Bench

GIB = 2**30


async def test_good_hosts_have_no_findings(tmp_path: Path) -> None:
    report = await Fleet().preflight(tmp_path)
    assert report.errors == {}
    assert report.warnings == {}
    assert report.result.status is RunStatus.SUCCEEDED
    assert {host.state for _, host in report.result.results()} == {State.SATISFIED}
    assert not report.result.changed


async def test_all_findings_of_all_hosts_come_at_once(tmp_path: Path) -> None:
    fleet = Fleet().change("w1", cpu=Cpu(count=1), memory=Memory(total=GIB, available=GIB), arch="riscv64")
    report = await fleet.change("cp2", cpu=Cpu(count=1)).preflight(tmp_path)
    assert set(report.errors) == {("cpu", "w1"), ("memory", "w1"), ("arch", "w1"), ("cpu", "cp2")}
    assert report.result.status is RunStatus.FAILED
    assert State.BLOCKED not in {host.state for _, host in report.result.results()}


ERRORS: dict[str, tuple[str, dict[str, object], str, str]] = {
    "no facts": ("connection", {"is_assumed": True}, "nothing is known", "reached"),
    "no root": ("root", {"uid": 1000}, "as user 1000, not as root", "sudo rights"),
    "container": ("root", {"security": Security(capabilities=("CAP_CHOWN",))}, "root lacks CAP_NET_ADMIN", "container"),
    "no tools": ("tools", {"commands": ("mount", "tar", "setsid")}, "flock, sha256sum, timeout not found", "coreutils"),
    "old system": (
        "os",
        {"os": Os(id="ubuntu", version="18.04", name="Ubuntu 18.04 LTS", family="debian")},
        "Ubuntu 18.04 LTS is refused: it is too old",
        "ubuntu 20.04 or newer",
    ),
    "old kernel": ("kernel", {"kernel": Kernel(release="4.9.0-13")}, "kernel 4.9.0-13 is too old", "4.19"),
    "odd processor": ("arch", {"arch": "riscv64"}, "its processor is riscv64", "amd64 and arm64"),
    "other init": ("init", {"init": "openrc", "systemd": Systemd()}, "its init is openrc", "systemd"),
    "controllers": ("cgroup", {"cgroup_controllers": ("cpu", "cpuset", "pids")}, "memory are off", "cgroup_enable"),
    "modules": (
        "modules",
        {"kernel": Kernel(release="6.1.0", builtin=("overlay", "nf_tables"), loadable=("nf_conntrack", "vxlan"))},
        "kernel 6.1.0 has no br_netfilter",
        "linux-modules-extra",
    ),
    "cpu": ("cpu", {"cpu": Cpu(count=1)}, "it has 1 CPU, and 2 are needed", "minCPU"),
    "memory": ("memory", {"memory": Memory(total=GIB, available=0)}, "it has 1.0 GiB of memory", "minMemory"),
    "disk": (
        "disk",
        {"filesystems": (Filesystem(mount="/", device="x", type="ext4", size=9 * GIB, free=3 * GIB),)},
        "/ has 3.0 GiB free, and 10.0 GiB are needed for /var/lib/containerd, /var/lib/kubelet",
        "minDisk",
    ),
    "kubelet there": (
        "leftovers",
        {"units": (Unit(name="kubelet.service", active="inactive", enabled="enabled"),)},
        "another Kubernetes or etcd is set up here: kubelet.service",
        "kubeadm reset",
    ),
    "files there": (
        "leftovers",
        {"presence": Presence(paths=("/etc/kubernetes", "/var/lib/etcd", "/opt/cni/bin"))},
        "left of an older cluster: /etc/kubernetes, /var/lib/etcd",
        "remove these paths",
    ),
    "docker": (
        "runtime",
        {"units": (Unit(name="docker.service", active="active"),), "presence": Presence(sockets=("/run/docker.sock",))},
        "not kubexm's: Docker",
        "remove it",
    ),
    "another cluster": (
        "membership",
        {"marker": ClusterMarker(uid="u-1", name="staging")},
        "it belongs to the cluster staging",
        "kubexm delete cluster",
    ),
    "unreadable mark": (
        "membership",
        {"marker": ClusterMarker(uid="unreadable", name="unreadable")},
        "cluster.json cannot be read",
        "from another host",
    ),
    "mark of a lost cluster": (
        "membership",
        {"marker": ClusterMarker(uid="u-1", name="prod")},
        "of which no etcd or control-plane host",
        "is gone",
    ),
}


@pytest.mark.parametrize(("check", "facts", "problem", "remedy"), ERRORS.values(), ids=ERRORS)
async def test_an_error_of_one_host(
    check: str, facts: dict[str, object], problem: str, remedy: str, tmp_path: Path
) -> None:
    report = await Fleet().change("w1", **facts).preflight(tmp_path)
    message, hint = report.errors[check, "w1"]
    assert problem in message
    assert remedy in hint
    assert all(host == "w1" for _, host in report.errors)
    assert report.at(check, "w2").state is State.SATISFIED


WARNINGS: dict[str, tuple[str, dict[str, object], str]] = {
    "swap": ("swap", {"swap": (SwapDevice(path="/dev/sda2", kind="partition", size=GIB),)}, "swap is on: /dev/sda2"),
    "unknown system": (
        "os",
        {"os": Os(id="gentoo", version="", name="Gentoo", family="unknown"), "package_manager": ""},
        "Gentoo is not a distribution kubexm knows, and has no package manager kubexm knows; it was not tested there",
    ),
    "untested system": (
        "os",
        {"os": Os(id="rocky", version="9.4", name="Rocky Linux 9.4 (Blue Onyx)", family="rhel")},
        "Rocky Linux 9.4 (Blue Onyx) is expected to work, but kubexm was not tested on it",
    ),
    "newer system": (
        "os",
        {"os": Os(id="debian", version="14", name="Debian GNU/Linux 14 (forky)", family="debian")},
        "Debian GNU/Linux 14 (forky) is expected to work, but kubexm was not tested on it",
    ),
    "reboot": ("kernel", {"reboot_required": True}, "a reboot is pending"),
    "cgroup v1": ("cgroup", {"cgroup": 1}, "it uses cgroup v1, which Kubernetes 1.35 and later refuse"),
    "pids": ("cgroup", {"cgroup_controllers": ("cpu", "cpuset", "memory")}, "controller pids is off"),
    "time": ("time-service", {"clock": Clock()}, "no time service runs"),
    "not in time": ("time-service", {"clock": Clock(service="chrony", synchronized=False)}, "chrony has not synchron"),
    "idle kubelet": (
        "leftovers",
        {"units": (Unit(name="kubelet.service", active="inactive", enabled="disabled"),)},
        "kubelet.service installed, but not in use",
    ),
    "node ports": (
        "ports",
        {"ports": (Port(protocol="tcp", address="*", port=30080, process="nginx"),)},
        "NodePort may get are in use: 30080 (nginx)",
    ),
}


@pytest.mark.parametrize("read_ahead", [True, False])
@pytest.mark.parametrize(("check", "facts", "text"), WARNINGS.values(), ids=WARNINGS)
async def test_a_warning_is_told_once_and_fails_nothing(
    check: str, facts: dict[str, object], text: str, read_ahead: bool, tmp_path: Path
) -> None:
    report = await Fleet().change("w1", **facts).preflight(tmp_path, read_ahead=read_ahead)
    assert report.errors == {}
    assert list(report.warnings) == [(check, "w1")]
    (warning,) = report.warnings[check, "w1"]
    assert text in warning
    assert report.at(check, "w1").state is State.SATISFIED


async def test_a_warning_beside_an_error_is_told_too(tmp_path: Path) -> None:
    report = await Fleet().change("w1", kernel=Kernel(release="3.10"), reboot_required=True).preflight(tmp_path)
    assert "too old" in report.errors["kernel", "w1"][0]
    assert report.warnings["kernel", "w1"] == ("a reboot is pending: better reboot now than under a running cluster",)


@pytest.mark.parametrize(
    ("more", "check", "facts", "problem"),
    [
        (
            "system: {disableSwap: false}",
            "swap",
            {"swap": (SwapDevice(path="/swap", kind="file", size=GIB),)},
            "swap is on: /swap (1.0 GiB)",
        ),
        ("kubernetes: {version: v1.35.0}", "cgroup", {"cgroup": 1}, "the kubelet of Kubernetes 1.35 refuses cgroup v1"),
        (
            "kubernetes: {kubeProxy: {mode: nftables}}",
            "kernel",
            {"kernel": replace(Facts.assumed().kernel, release="5.4.0-1")},
            "kernel 5.4.0-1 is too old for kube-proxy with nftables",
        ),
        (
            "kubernetes: {kubeProxy: {mode: ipvs}}",
            "modules",
            {"kernel": replace(Facts.assumed().kernel, loadable=("overlay", "br_netfilter", "nf_conntrack", "vxlan"))},
            "has no ip_vs, ip_vs_rr, ip_vs_wrr, ip_vs_sh",
        ),
        ("preflight: {minCPU: 8}", "cpu", {"cpu": Cpu(count=7)}, "it has 7 CPUs, and 8 are needed"),
    ],
)
async def test_what_the_file_says_decides(
    more: str, check: str, facts: dict[str, object], problem: str, tmp_path: Path
) -> None:
    fleet = Fleet(cluster(more))
    fleet.change(*fleet.facts, cpu=Cpu(count=16))
    report = await fleet.change("w1", **facts).preflight(tmp_path)
    assert list(report.errors) == [(check, "w1")]
    assert problem in report.errors[check, "w1"][0]


async def test_a_kernel_without_ipvs_says_which_modes_there_are_besides(tmp_path: Path) -> None:
    kernel = replace(Facts.assumed().kernel, loadable=("overlay", "br_netfilter", "nf_conntrack", "vxlan"))
    fleet = Fleet(cluster("kubernetes: {kubeProxy: {mode: ipvs}}")).change("w1", kernel=kernel)
    _, remedy = (await fleet.preflight(tmp_path)).errors["modules", "w1"]
    assert "or set kubernetes.kubeProxy.mode to nftables or iptables" in remedy


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        (
            "kubernetes: {kubelet: {config: {failSwapOn: false}}}",
            {"swap": (SwapDevice(path="/swap", kind="file", size=1),)},
        ),
        ("kubernetes: {version: v1.35.0, kubelet: {config: {failCgroupV1: false}}}", {"cgroup": 1}),
        ("system: {ntpServers: [10.0.0.1]}", {"clock": Clock()}),
        ("system: {firewall: open}", {"firewall": "firewalld"}),
        ("system: {selinux: permissive}", {"security": replace(Facts.assumed().security, selinux="enforcing")}),
    ],
)
async def test_what_the_file_accepts_or_create_mends_is_no_error(
    more: str, facts: dict[str, object], tmp_path: Path
) -> None:
    report = await Fleet(cluster(more)).change("w1", **facts).preflight(tmp_path)
    assert report.errors == {}


@pytest.mark.parametrize(
    ("more", "check", "facts"),
    [
        ("system: {firewall: keep}", "firewall", {"firewall": "ufw"}),
        ("system: {selinux: keep}", "selinux", {"security": replace(Facts.assumed().security, selinux="enforcing")}),
    ],
)
async def test_what_the_user_keeps_is_a_warning(
    more: str, check: str, facts: dict[str, object], tmp_path: Path
) -> None:
    report = await Fleet(cluster(more)).change("w1", **facts).preflight(tmp_path)
    assert list(report.warnings) == [(check, "w1")]


async def test_the_file_says_another_architecture(tmp_path: Path) -> None:
    text = cluster().replace('address: "10.0.0.[21:22]"', 'address: "10.0.0.[21:22]", arch: arm64')
    report = await Fleet(text).change("w2", arch="arm64").preflight(tmp_path)
    assert report.errors == {
        ("arch", "w1"): (
            "its processor is amd64, and the file says arm64",
            "set `arch: amd64` for w1 in the file, or leave it out",
        )
    }


async def test_etcd_needs_its_own_space(tmp_path: Path) -> None:
    roots = (
        Filesystem(mount="/", device="a", type="ext4", size=100 * GIB, free=90 * GIB),
        Filesystem(mount="/data", device="b", type="xfs", size=9 * GIB, free=GIB),
    )
    fleet = Fleet(cluster("etcd: {dataDir: /data/etcd}")).change("cp1", filesystems=roots)
    report = await fleet.change("w1", filesystems=roots).preflight(tmp_path)
    assert list(report.errors) == [("disk", "cp1")]
    assert "/data has 1.0 GiB free, and 10.0 GiB are needed for /data/etcd" in report.errors["disk", "cp1"][0]


async def test_a_running_cluster_may_have_used_its_disk(tmp_path: Path) -> None:
    small = (Filesystem(mount="/", device="x", type="ext4", size=9 * GIB, free=3 * GIB),)
    fleet = Fleet()
    fleet.change(*fleet.facts, marker=ClusterMarker(uid="u", name="prod")).change("w1", filesystems=small)
    report = await fleet.preflight(tmp_path)
    assert report.errors == {}
    assert list(report.warnings) == [("disk", "w1")]


def interfaces(*names: str) -> tuple[Interface, ...]:
    return tuple(Interface(name=name, addresses=("10.244.1.1/24",)) for name in names)


async def test_what_belongs_to_this_cluster_is_ours(tmp_path: Path) -> None:
    fleet = Fleet()
    for host in fleet.facts:
        fleet.change(
            host,
            marker=ClusterMarker(uid="u-1", name="prod"),
            units=(Unit(name="kubelet.service", active="active", enabled="enabled"),),
            presence=Presence(paths=("/etc/kubernetes", "/var/lib/etcd"), sockets=("/run/containerd/containerd.sock",)),
            ports=tuple(
                Port(protocol="tcp", address="*", port=port, process=process, pid=7)
                for port, process in (
                    (6443, "kube-apiserver" if host.startswith("cp") else "haproxy"),
                    (10250, "kubelet"),
                    (10257, "kube-controller"),
                    (2379, "etcd"),
                    (8472, ""),
                )
            ),
        )
        network = fleet.facts[host].network
        fleet.part(host, "network", interfaces=(*network.interfaces, *interfaces("cni0", "flannel.1")))
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_a_cluster_of_the_same_name_is_not_ours(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.change(*fleet.facts, marker=ClusterMarker(uid="u-1", name="prod"))
    fleet.change("w2", marker=ClusterMarker(uid="u-2", name="prod"))
    report = await fleet.preflight(tmp_path)
    assert list(report.errors) == [("membership", "w2")]
    assert "(u-2, not u-1)" in report.errors["membership", "w2"][0]


async def test_the_known_uid_decides_over_marks(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.change(*fleet.facts, marker=ClusterMarker(uid="u-1", name="prod"))
    report = await fleet.preflight(tmp_path, uid="u-9")
    assert {check for check, _ in report.errors} == {"membership"}
    assert len(report.errors) == 5


async def test_kubexms_own_runtime_that_was_kept_is_no_finding(tmp_path: Path) -> None:
    unit = Unit(name="containerd.service", active="active", enabled="enabled")
    fleet = Fleet().change("w1", units=(unit,), presence=Presence(stamps=("containerd.service",)))
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_interfaces_of_an_older_cluster(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.part("w1", "network", interfaces=(*fleet.facts["w1"].network.interfaces, *interfaces("cni0")))
    report = await fleet.preflight(tmp_path)
    assert "network interfaces of an older cluster: cni0" in report.errors["leftovers", "w1"][0]


async def test_what_a_stopped_run_of_kubexm_left_is_no_leftover(tmp_path: Path) -> None:
    fleet = Fleet(begun=frozenset({"w1"}))
    for host in ("w1", "w2"):
        fleet.part(host, "presence", paths=("/etc/kubernetes",))
    report = await fleet.preflight(tmp_path)
    assert [host for check, host in report.errors if check == "leftovers"] == ["w2"]


async def test_ports(tmp_path: Path) -> None:
    nginx = Port(protocol="tcp", address="0.0.0.0", port=6443, process="nginx", pid=42)
    lo = Port(protocol="tcp", address="127.0.0.1", port=6443, process="x", pid=1)
    elsewhere = Port(protocol="tcp", address="10.0.0.22", port=6443, process="x", pid=1)
    etcd = Port(protocol="tcp", address="*", port=2379, process="etcd", pid=9)
    vxlan = Port(protocol="udp", address="0.0.0.0", port=8472)
    fleet = Fleet().change("cp1", ports=(nginx, etcd)).change("w1", ports=(lo, vxlan, etcd))
    report = await fleet.change("w2", ports=(elsewhere,)).preflight(tmp_path)
    message, hint = report.errors["ports", "cp1"]
    assert message == (
        "tcp port 6443, for kube-apiserver, is used by nginx (pid 42); tcp port 2379, for etcd, is used by etcd (pid 9)"
    )
    assert hint == (
        "stop it, or choose another with controlPlaneEndpoint.port; stop it, or choose another with etcd.clientPort"
    )
    message, _ = report.errors["ports", "w1"]
    assert "6443, for the load balancer, is used by x" in message
    assert "udp port 8472, for flannel's vxlan, is used by something" in message
    assert "etcd" not in message
    assert ("ports", "w2") not in report.errors


async def test_a_port_taken_by_a_stranger_on_a_host_of_this_cluster(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.change(*fleet.facts, marker=ClusterMarker(uid="u", name="prod"))
    fleet.change("cp1", ports=(Port(protocol="tcp", address="*", port=6443, process="nginx", pid=4),))
    assert list((await fleet.preflight(tmp_path)).errors) == [("ports", "cp1")]


async def test_identities_that_two_hosts_share(tmp_path: Path) -> None:
    fleet = Fleet(cluster("system: {setHostname: false}"))
    fleet.change("w1", "w2", hostname="Localhost", machine_id="same", product_uuid="uuid")
    mac = replace(fleet.facts["w2"].network.interfaces[0], mac="52:54:00:00:00:21", addresses=("10.0.0.22/24",))
    fleet.part("w2", "network", interfaces=(mac,))
    report = await fleet.preflight(tmp_path)
    assert set(report.errors) == {(check, host) for check in ("hostname", "machine-id", "mac") for host in ("w1", "w2")}
    assert report.errors["hostname", "w1"][0] == "its hostname localhost is also that of w2"
    assert report.errors["machine-id", "w2"][0] == "its machine-id same is also that of w1"
    assert set(report.warnings) == {("product-uuid", "w1"), ("product-uuid", "w2")}


async def test_names_that_create_will_give_are_a_warning(tmp_path: Path) -> None:
    report = await Fleet().change("w1", "w2", hostname="localhost").preflight(tmp_path)
    assert report.errors == {}
    assert set(report.warnings) == {("hostname", "w1"), ("hostname", "w2")}


async def test_containers_share_the_uuid_and_the_clock_of_the_machine(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.change(*fleet.facts, platform="systemd-nspawn", product_uuid="uuid", clock=Clock())
    assert (await fleet.preflight(tmp_path)).warnings == {}


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"w1": 2.5}, {"w1"}),
        ({"w1": -2.5}, {"w1"}),
        ({"cp1": 1.2, "w1": -1.2}, {"cp1", "w1"}),
        ({"w1": 1.9}, set()),
        ({"cp1": 3.0, "cp2": 3.0, "cp3": 3.0, "w1": 3.0, "w2": 3.0}, set()),
        ({"cp1": 9.0, "cp2": 9.0, "cp3": 9.0}, {"w1", "w2"}),
    ],
)
async def test_clocks(offsets: dict[str, float], told: set[str], tmp_path: Path) -> None:
    fleet = Fleet()
    for host, offset in offsets.items():
        fleet.part(host, "clock", offset=offset, error=0.01)
    report = await fleet.preflight(tmp_path)
    assert {host for check, host in report.errors if check == "clock"} == told
    for _, hint in report.errors.values():
        assert "maxClockSkew" in hint


async def test_a_measurement_that_cannot_tell_is_no_finding(tmp_path: Path) -> None:
    fleet = Fleet().part("w1", "clock", offset=4.0, error=3.0)
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_a_control_machine_in_another_time_is_a_warning(tmp_path: Path) -> None:
    fleet = Fleet()
    for host in fleet.facts:
        fleet.part(host, "clock", offset=-400.0)
    report = await fleet.preflight(tmp_path)
    assert report.errors == {}
    assert "400 s behind this machine's" in report.warnings["clock", "w1"][0]


async def test_addresses(tmp_path: Path) -> None:
    fleet = Fleet()
    twice = replace(fleet.facts["w2"].network.interfaces[0], addresses=("10.0.0.22/24", "10.0.0.21/24"))
    public = replace(fleet.facts["cp1"].network.interfaces[0], addresses=("192.168.7.4/24",))
    fleet.part("w2", "network", interfaces=(twice,)).part("cp1", "network", interfaces=(public,))
    report = await fleet.preflight(tmp_path)
    assert set(report.errors) == {("addresses", "w1"), ("addresses", "cp1")}
    assert report.errors["addresses", "w1"][0] == "its address 10.0.0.21 is also one of w2"
    assert report.errors["addresses", "cp1"] == (
        "10.0.0.11 is not an address of this host, which has 192.168.7.4",
        "set internalAddress of cp1 to the address other hosts reach it by",
    )


async def test_addresses_of_the_sixth_version_are_compared_as_such(tmp_path: Path) -> None:
    text = cluster().replace(
        'address: "10.0.0.[21:22]"', 'address: "10.0.0.[21:22]", internalAddress: "10.0.0.[21:22],fd00::[1:2]"'
    )
    fleet = Fleet(text)
    for index, host in enumerate(("w1", "w2")):
        shown = replace(
            fleet.facts[host].network.interfaces[0], addresses=(f"10.0.0.2{index + 1}/24", f"fd00:0:0::{index + 1}/64")
        )
        fleet.part(host, "network", interfaces=(shown,))
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_networks_that_overlap_what_is_there(tmp_path: Path) -> None:
    fleet = Fleet()
    inside = (*fleet.facts["w1"].network.interfaces, Interface(name="br0", addresses=("10.244.7.1/24",)))
    route = Route(interface="eth0", gateway="10.96.0.1", source="10.0.0.21")
    fleet.part("w1", "network", interfaces=inside, route4=route, nameservers=("10.96.0.10",))
    message, hint = (await fleet.preflight(tmp_path)).errors["cidr", "w1"]
    assert "10.244.7.1/24 on br0 is inside network.podCIDR 10.244.0.0/16" in message
    assert "its gateway 10.96.0.1, its name server 10.96.0.10 is inside network.serviceCIDR" in message
    assert "choose a network for network.podCIDR" in hint


async def test_name_servers(tmp_path: Path) -> None:
    fleet = Fleet().part("w1", "network", nameservers=())
    fleet.part("w2", "network", nameservers=("127.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"))
    fleet.part("cp1", "network", nameservers=("127.0.0.53",))
    fleet.change("cp1", units=(Unit(name="systemd-resolved.service", active="active"),))
    report = await fleet.preflight(tmp_path)
    assert list(report.errors) == [("dns", "w1")]
    assert "names no name server" in report.errors["dns", "w1"][0]
    assert list(report.warnings) == [("dns", "w2")]
    assert "4 name servers" in report.warnings["dns", "w2"][0]
    assert "CoreDNS would ask itself" in report.warnings["dns", "w2"][1]


async def test_no_name_server_is_needed_where_the_file_names_some(tmp_path: Path) -> None:
    fleet = Fleet(cluster('dns: {coredns: {upstream: ["10.0.0.53"]}}')).part("w1", "network", nameservers=())
    assert (await fleet.preflight(tmp_path)).errors == {}


async def test_name_servers_that_do_not_answer(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.lookups = "0 124\n"
    report = await fleet.preflight(tmp_path)
    assert report.errors == {}
    assert "do not answer" in report.warnings["dns", "w1"][0]


async def test_no_host_asks_for_a_name_whose_absence_a_name_server_remembers(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.lookups = "0 124\n"
    report = await fleet.preflight(tmp_path)
    assert {host for check, host in report.warnings if check == "dns"} == set(fleet.facts)
    scripts = [script for connector in fleet.connectors.values() for script in connector.scripts]
    asked = [name for script in scripts for name in re.findall(r"getent ahosts (\S+\.invalid)", script)]
    assert len(set(asked)) == len(fleet.facts)


async def test_names_must_resolve_where_kubexm_does_not_write_them(tmp_path: Path) -> None:
    fleet = Fleet(cluster("system: {manageHostsFile: false}"))
    fleet.lookups = "0 2\n1 0\n2 0\n3 0\n4 2\n5 0\n"
    report = await fleet.preflight(tmp_path)
    assert report.errors["dns", "cp1"] == (
        "it cannot resolve w1",
        "add them to your DNS, or set system.manageHostsFile to true",
    )


async def test_look_ups_really_run(bench: Bench) -> None:
    bench.program("getent", "case $2 in w1) exit 0 ;; w2) exit 2 ;; *) exec sleep 9 ;; esac")
    step = NamesResolve(own_upstream=True, names=("w1", "w2"))
    ctx = bench.context.step_context("bench.steps.dns", UnitConnector(bench.connector, Transcript), "r1")
    assert [finding.problem for finding in await step.find(ctx)] == ["it cannot resolve w2"]


def test_in_a_large_cluster_every_name_is_asked_for_by_somebody() -> None:
    names = tuple(f"w{index}" for index in range(100))
    step = NamesResolve(own_upstream=True, names=names)
    asked = [step._asked(name) for name in names]
    assert {len(each) for each in asked} == {16}
    assert {name for each in asked for name in each} == set(names)


async def test_modules_that_facts_do_not_look_for_are_left_to_loading(tmp_path: Path) -> None:
    assert (await Fleet(cluster("system: {modules: [nbd]}")).preflight(tmp_path)).errors == {}
    fleet = Fleet(cluster("system: {modules: [wireguard]}"))
    fleet.part(
        "w1", "kernel", loadable=tuple(name for name in fleet.facts["w1"].kernel.loadable if name != "wireguard")
    )
    report = await fleet.preflight(tmp_path / "second")
    assert list(report.errors) == [("modules", "w1")]


async def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.writable = "w /usr/local\nx /opt\n"
    message, hint = (await fleet.preflight(tmp_path)).errors["writable", "w1"]
    assert message == "/usr/local cannot be written to; /opt is mounted noexec"
    assert "image-based" in hint


async def test_data_directories_of_ones_own_must_be_empty(tmp_path: Path) -> None:
    fleet = Fleet(cluster("etcd: {dataDir: /data/etcd}"), full={"cp1": "/data/etcd\n"})
    report = await fleet.preflight(tmp_path)
    assert list(report.errors) == [("leftovers", "cp1")]
    assert report.errors["leftovers", "cp1"][0] == "not empty: /data/etcd"
