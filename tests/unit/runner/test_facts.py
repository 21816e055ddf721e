"""Facts out of what hosts print: Debian, Rocky, SUSE, a bare arm64 host without ip, ss and nproc."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.errors import CommandError, KubexmError
from kubexm.runner import Facts, Runner
from kubexm.runner.facts import Port, Route, SwapDevice, fact_script, normal_arch, parse_facts
from kubexm.runner.facts.parse import parse_lease, parse_marker

Recorded = Callable[[str], str]


@pytest.fixture
def debian(recorded: Recorded) -> Facts:
    return parse_facts(recorded("debian12"), "@mark", sent=1760000000.0, received=1760000000.4)


def test_system(debian: Facts) -> None:
    assert (debian.os.id, debian.os.version, debian.os.family, debian.os.codename) == (
        "debian",
        "12",
        "debian",
        "bookworm",
    )
    assert debian.os.name == "Debian GNU/Linux 12 (bookworm)"
    assert (debian.arch, debian.cpu.count) == ("amd64", 4)
    assert debian.cpu.model == "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"
    assert (debian.memory.total, debian.memory.available) == (8131592 * 1024, 7050000 * 1024)
    assert (debian.hostname, debian.kernel.release) == ("node1", "6.1.0-28-amd64")
    assert debian.machine_id == "0123456789abcdef0123456789abcdef"
    assert debian.product_uuid == "4c4c4544-0051-4a10-8054-b7c04f333432"
    assert debian.platform == "QEMU Standard PC (Q35 + ICH9, 2009)"
    assert debian.uptime == pytest.approx(86400.55)
    assert (debian.cgroup, "pids" in debian.cgroup_controllers) == (2, True)
    assert (debian.init, debian.systemd.running, debian.systemd.version) == ("systemd", True, 252)
    assert debian.package_manager == "apt"
    assert debian.reboot_required
    assert (debian.uid, debian.sudo_user) == (0, "ops")


def test_swap_and_disks(debian: Facts) -> None:
    assert debian.swap == (
        SwapDevice(path="/dev/sda5", kind="partition", size=998396 * 1024, used=2048 * 1024),
        SwapDevice(path="/mnt/swap file", kind="file", size=524284 * 1024),
    )
    assert [(d.name, d.size, d.rotational, d.model) for d in debian.disks] == [
        ("sda", 104857600 * 512, True, "QEMU HARDDISK"),
        ("sdb", 209715200 * 512, False, "Fast SSD 1"),
    ]
    assert [f.mount for f in debian.filesystems] == ["/", "/mnt/with space", "/var/lib"]
    found = debian.filesystem_of("/var/lib/etcd/member")
    assert found is not None
    assert (found.mount, found.free) == ("/var/lib", 90000000 * 1024)
    elsewhere = debian.filesystem_of("/var/library")
    assert elsewhere is not None
    assert elsewhere.mount == "/"


def test_network(debian: Facts) -> None:
    by_name = {i.name: i for i in debian.network.interfaces}
    assert by_name["ens18"].mac == "bc:24:11:4f:5a:01"
    assert (by_name["ens18"].mtu, by_name["ens18"].up, by_name["ens18"].physical) == (1500, True, True)
    assert (by_name["wlan0"].up, by_name["tun0"].mac, by_name["tun0"].addresses) == (False, "", ("10.8.0.2/32",))
    assert debian.network.route4 == Route(interface="ens18", gateway="10.0.0.1", source="10.0.0.11")
    assert debian.network.route6 == Route(interface="ens18", gateway="fe80::1", source="fd00::11")
    assert debian.network.addresses == ("10.0.0.11", "192.168.5.1", "fd00::11", "10.8.0.2")
    interface = debian.network.interface_of("fd00::11")
    assert interface is not None
    assert interface.name == "ens18"
    assert debian.network.nameservers == ("10.0.0.53", "fd00::53")
    assert debian.network.search == ("example.org", "lab.example.org")


def test_kernel(debian: Facts) -> None:
    kernel = debian.kernel
    assert kernel.loaded == ("br_netfilter", "nf_conntrack", "xt_conntrack")
    assert kernel.builtin == ("bridge", "nf_tables", "overlay", "tun")
    assert kernel.loadable == ("ip_vs", "vxlan", "xt_physdev")
    assert kernel.has("br-netfilter")
    assert kernel.has("nf_tables")
    assert not kernel.has("ip_vs")
    assert (kernel.conntrack_max, kernel.conntrack_writable, kernel.ip_forward) == (262144, True, False)


def test_security(debian: Facts) -> None:
    assert (debian.security.selinux, debian.security.apparmor) == ("disabled", True)
    assert "CAP_SYS_ADMIN" in debian.security.capabilities
    assert "CAP_SYS_RESOURCE" not in debian.security.capabilities  # services could not have it


def test_clock_is_measured_like_ntp(debian: Facts) -> None:
    # 0.4 s in all, 0.1 s of it spent on the host: it read 0.25 and 0.35 while we were at 0.15 and 0.25.
    assert debian.clock.offset == pytest.approx(0.1)
    assert debian.clock.error == pytest.approx(0.15)
    assert (debian.clock.service, debian.clock.synchronized) == ("chrony", True)
    assert debian.clock.timezone == "Europe/Vienna"


def test_ports(debian: Facts) -> None:
    assert debian.ports == (
        Port(protocol="tcp", address="0.0.0.0", port=22, process="sshd", pid=701),
        Port(protocol="tcp", address="::", port=22, process="sshd", pid=701),
        Port(protocol="tcp", address="127.0.0.53", port=53),
        Port(protocol="tcp", address="fe80::1", port=80),
        Port(protocol="tcp", address="::", port=2379, process="etcd", pid=900),
        Port(protocol="udp", address="127.0.0.1", port=323, process="chronyd", pid=611),
    )


def test_what_is_there_already(debian: Facts) -> None:
    assert debian.presence.sockets == ("/run/containerd/containerd.sock",)
    assert debian.presence.paths == ("/etc/kubernetes", "/var/lib/etcd")
    assert debian.presence.stamps == ("etcd.service",)
    containerd = debian.unit("containerd")
    assert containerd is not None
    assert (containerd.active, containerd.path) == ("active", "/lib/systemd/system/containerd.service")
    assert debian.unit("docker") is None
    masked = debian.unit("systemd-timesyncd.service")
    assert masked is not None
    assert masked.enabled == "masked"
    assert debian.firewall == "ufw"
    assert debian.has_command("containerd")
    assert debian.marker is not None
    assert (debian.marker.uid, debian.marker.roles) == ("3f1c", ("control-plane", "etcd"))
    assert debian.lease is None


def test_rocky(recorded: Recorded) -> None:
    facts = parse_facts(recorded("rocky9"), "@mark")
    assert (facts.os.id, facts.os.version, facts.os.family) == ("rocky", "9.4", "rhel")
    assert (facts.package_manager, facts.firewall) == ("dnf", "firewalld")
    assert (facts.security.selinux, facts.security.selinux_configured) == ("enforcing", "enforcing")
    assert "CAP_SYS_ADMIN" not in facts.security.capabilities
    assert "CAP_CHOWN" in facts.security.capabilities
    assert (facts.clock.synchronized, facts.clock.timezone, facts.clock.offset) == (False, "UTC", 0.0)
    assert facts.memory.available == 900000 * 1024
    assert facts.network.route4 == Route(interface="eth0", gateway="10.0.0.1", source="10.0.0.5")
    assert facts.network.route6 is None
    assert facts.network.search == ("example.org",)
    assert facts.platform == "Amazon EC2 m5.large"
    assert facts.marker is None


def test_suse(recorded: Recorded) -> None:
    facts = parse_facts(recorded("suse15"), "@mark")
    assert (facts.os.family, facts.package_manager) == ("suse", "zypper")
    assert (facts.cgroup, facts.cgroup_controllers) == (1, ("cpu", "cpuset", "memory", "pids"))
    assert facts.ports == ()


def test_a_bare_arm64_host(recorded: Recorded) -> None:
    facts = parse_facts(recorded("ubuntu-arm64-bare"), "@mark", sent=1760000002.5, received=1760000003.5)
    assert (facts.os.id, facts.os.family, facts.arch) == ("ubuntu", "debian", "arm64")
    assert facts.os.name == "Ubuntu 24.04.1 LTS"
    assert (facts.cpu.count, facts.cpu.model) == (3, "Raspberry Pi 4 Model B Rev 1.4")
    assert facts.machine_id == "aaaabbbbccccddddaaaabbbbccccdddd"
    assert facts.platform == "lxc"
    assert (facts.clock.time, facts.clock.timezone) == (1760000003.0, "Asia/Tokyo")
    assert facts.network.route4 == Route(interface="eth0", gateway="10.1.2.1", source="10.1.2.7")
    assert facts.network.route6 == Route(interface="eth0", gateway="fd00::1", source="fd00::2")
    assert facts.network.addresses == ("10.1.2.7", "fd00::2")
    assert facts.kernel.has("ip_vs")
    assert not facts.kernel.has("vxlan")
    assert facts.ports == (
        Port(protocol="tcp", address="127.0.0.1", port=22, process="sshd", pid=700),
        Port(protocol="tcp", address="fd00::2", port=6443, process="kube-apiserver", pid=800),
        Port(protocol="udp", address="0.0.0.0", port=68),
    )


def test_arches() -> None:
    assert [normal_arch(a) for a in ("x86_64", "aarch64", "arm64", "riscv64")] == ["amd64", "arm64", "arm64", "riscv64"]


@pytest.mark.parametrize("name", ["debian12", "rocky9", "suse15", "ubuntu-arm64-bare"])
def test_facts_survive_json(recorded: Recorded, name: str) -> None:
    facts = parse_facts(recorded(name), "@mark", sent=1.0, received=2.0)
    assert Facts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts
    assert hash(Facts.from_dict(facts.to_dict())) == hash(facts)


@given(st.text())
def test_no_output_breaks_the_parser(noise: str) -> None:
    parse_facts(noise, "@mark")


@given(st.data())
def test_no_cut_breaks_the_parser(data: Any) -> None:
    from pathlib import Path

    name = data.draw(st.sampled_from(["debian12", "rocky9", "suse15", "ubuntu-arm64-bare"]))
    text = (Path(__file__).parent / "hosts" / f"{name}.txt").read_text(encoding="utf-8")
    lines = text.split("\n")
    parse_facts("\n".join(lines[: data.draw(st.integers(0, len(lines)))]), "@mark")
    words = text.split(" ")
    gone = data.draw(st.sets(st.integers(0, len(words) - 1), max_size=40))
    parse_facts(" ".join(word for i, word in enumerate(words) if i not in gone), "@mark")


def test_saved_facts_of_another_version_are_refused(debian: Facts) -> None:
    data = debian.to_dict()
    with pytest.raises(KubexmError, match=r"facts\.cpu\.cores: expected nothing of that name"):
        Facts.from_dict({**data, "cpu": {**data["cpu"], "cores": 3}})
    with pytest.raises(KubexmError, match=r"facts\.cpu\.count: expected int, found '4'"):
        Facts.from_dict({**data, "cpu": {"count": "4"}})
    with pytest.raises(KubexmError, match=r"facts\.arch: expected a value"):
        Facts.from_dict({key: value for key, value in data.items() if key != "arch"})
    with pytest.raises(KubexmError, match=r"facts\.ports: expected a list"):
        Facts.from_dict({**data, "ports": "none"})


def test_assumed() -> None:
    facts = Facts.assumed("arm64", hostname="n1", address="10.0.0.1")
    assert (facts.is_assumed, facts.arch, facts.os.family, facts.package_manager) == (True, "arm64", "debian", "apt")
    assert facts.network.route4 == Route(interface="eth0", source="10.0.0.1")
    assert "CAP_SYS_RESOURCE" in facts.security.capabilities
    assert Facts.assumed() == Facts.assumed()
    assert Facts.from_dict(facts.to_dict()) == facts


async def test_gathering_is_one_read(recorder: Any, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.runner.facts.gather.secrets.token_hex", lambda _: "x")
    recorder.answers = [recorded("debian12").replace("@mark", "@kubexm-x")]
    facts = await Runner().gather_facts(recorder)
    assert facts.hostname == "node1"
    assert len(recorder.commands) == 1
    assert not recorder.commands[0].changes


async def test_incomplete_facts_are_an_error_not_an_empty_host(recorder: Any) -> None:
    recorder.answers = ["This account is not available.\n"]
    with pytest.raises(CommandError, match="came back incomplete") as caught:
        await Runner().gather_facts(recorder)
    assert caught.value.hint


def test_the_script_needs_nothing_unusual() -> None:
    script = fact_script("@m", PurePosixPath("/var/lib/kubexm"))
    for word in ("python", "awk", "[[", "function ", "$'"):
        assert word not in script.replace("python3", "").replace("command -v", "")
    assert len(script) < 12_000


def test_lease_lines() -> None:
    lease = parse_lease("12 me%40host run%201 1760000000\n")
    assert lease is not None
    assert (lease.token, lease.owner, lease.run, lease.expiry) == (12, "me@host", "run 1", 1760000000.0)
    free = parse_lease("12 - - 0\n")
    assert free is not None
    assert (free.token, free.owner, free.run) == (12, "", "")
    assert parse_lease("") is None
    assert parse_lease("garbage") is None


def test_an_unreadable_marker_still_belongs_to_somebody() -> None:
    for text in ("not json", "[]", "{}", '"x"', '{"uid": "a"}'):
        marker = parse_marker(text)
        assert marker is not None
        assert marker.uid == "unreadable"
    assert parse_marker(" \n") is None
