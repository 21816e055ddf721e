"""Lab hosts are as real as Kubernetes needs them, and every command of the lab does what it says."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubexm.config import load
from kubexm.errors import LabError, UsageError
from kubexm.lab import Lab, teardown
from kubexm.lab.cgroups import Subtree, hierarchies
from kubexm.lab.disk import release_loops
from kubexm.lab.network import networks_in_use
from tests.cluster.sandbox import sandbox

_PATIENCE = 60.0
_PROBE_GROUPS = """
set -e
for tree in $(findmnt --noheadings --list --output TARGET --types cgroup,cgroup2); do
    mkdir "$tree/probe"
    if [ "$(stat -fc %T "$tree")" != cgroup2fs ]; then
        for file in cpuset.cpus cpuset.mems; do
            if [ -e "$tree/$file" ]; then cat "$tree/$file" >"$tree/probe/$file"; fi
        done
    fi
    sh -c 'echo 0 >"$1/cgroup.procs" && exec true' sh "$tree/probe"
    rmdir "$tree/probe"
done
"""

MakeLab = Callable[..., Lab]


@pytest.fixture(scope="module")
def pair(make_lab: MakeLab) -> Lab:
    """Two plain hosts that tests may break, as long as they mend them."""
    return make_lab(hosts=2)


@pytest.fixture(scope="module")
def zoo(make_lab: MakeLab) -> Lab:
    """One host of each flavour that is not plain."""
    kinds = ["nopython", "airgapped", "sudo-password", "defects"]
    return make_lab(topology="1+3", flavours={f"n{number}": kind for number, kind in enumerate(kinds, 1)})


# What a host is


def test_every_host_runs_a_healthy_system_of_its_own(lab: Lab) -> None:
    seen = {host.name: lab.run(host.name, "systemctl is-system-running; cat /etc/machine-id") for host in lab.hosts}
    assert all(answer.startswith("running\n") for answer in seen.values()), seen
    assert len(set(seen.values())) == len(lab.hosts)
    assert [lab.run(host.name, "hostname").strip() for host in lab.hosts] == [host.name for host in lab.hosts]


def test_the_cluster_file_is_valid_and_holds_no_warning(lab: Lab) -> None:
    loaded = load(lab.cluster_file)
    assert loaded.warnings == ()
    assert [host.address for host in loaded.cluster.spec.hosts] == [str(host.address) for host in lab.hosts]


def test_container_runtimes_find_what_they_need(lab: Lab) -> None:
    name = lab.hosts[0].name
    assert lab.run(name, "readlink /dev/kmsg").strip() == "/dev/null"
    assert lab.run(name, "findmnt --noheadings --output PROPAGATION /").strip() == "shared"
    for folder in ("/var/lib/containerd", "/var/lib/kubelet"):
        assert lab.run(name, f"findmnt --noheadings --output FSTYPE,PROPAGATION {folder}").split() == ["ext4", "shared"]
    # An overlay on that directory, as a container runtime makes it.
    lab.run(
        name,
        "set -e; cd /var/lib/containerd; mkdir l u w m; mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m; "
        "echo x >m/x; umount m; rm -r l u w m",
    )
    # Control groups can be made in every hierarchy, and a process moved into them.
    lab.run(name, _PROBE_GROUPS)
    assert lab.run(name, "grep nameserver /etc/resolv.conf").strip() == f"nameserver {lab.network.machine_address}"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("vm.max_map_count", "262999"), ("fs.inotify.max_user_watches", "99999"), ("kernel.panic", "10")],
)
def test_kernel_settings_are_the_host_s_own(lab: Lab, setting: str, value: str) -> None:
    ours = Path("/proc/sys") / setting.replace(".", "/")
    before, name = ours.read_text(), lab.hosts[0].name
    was = lab.run(name, f"sysctl -n {setting}").strip()
    lab.run(name, f"sysctl -w {setting}={value}")
    try:
        assert lab.run(name, f"sysctl -n {setting}").strip() == value
        assert lab.run(lab.hosts[1].name, f"sysctl -n {setting}").strip() != value
        assert ours.read_text() == before
    finally:
        lab.run(name, f"sysctl -w {setting}={was}")


def test_hosts_reach_each_other_and_nothing_else(lab: Lab) -> None:
    first, second = lab.hosts[:2]
    lab.run(first.name, f"ping -c 1 -W 5 {second.address}")
    lab.run(first.name, f"ping -c 1 -W 5 {lab.network.machine_address}")
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    # Addresses outside, this machine's other addresses among them: all of them this machine itself could reach.
    others = [
        entry["local"]
        for interface in json.loads(_output("ip", "-json", "-4", "address"))
        for entry in interface["addr_info"]
        if interface["ifname"] not in ("lo", lab.network.bridge) and entry["local"]
    ]
    for outside in ["192.0.2.1", *others]:
        assert _fails(lab, first.name, f"ping -c 1 -W 1 {outside}")
        assert _fails(lab, first.name, f"timeout 2 bash -c 'exec 3<>/dev/tcp/{outside}/22'")
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding
    for rules in (["iptables-save"], ["nft", "list", "ruleset"]):
        assert shutil.which(rules[0]) is None or lab.network.bridge not in _output(*rules)


def test_a_wrong_host_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    first, second = lab.hosts[:2]
    lines = lab.access.known_hosts.read_text().splitlines()
    swapped = tmp_path / "known_hosts"
    swapped.write_text(f"{first.address} {lines[1].split(' ', 1)[1]}\n")
    command = lab.ssh_command(first.name, "true")
    command = [word.replace(str(lab.access.known_hosts), str(swapped)) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert "verification failed" in done.stderr.lower()
    lab.run(second.name, "true")


def test_ops_has_a_sudo_that_asks(lab: Lab) -> None:
    name = lab.hosts[0].name
    assert lab.run(name, "id -un", user="ops").strip() == "ops"
    assert _fails(lab, name, "sudo -n true", user="ops")
    assert _fails(lab, name, "sudo -S true", user="ops", stdin="wrong\n")
    asked = lab.run(name, "sudo -S -p '' id -un", user="ops", stdin=lab.access.sudo_password() + "\n")
    assert asked.strip() == "root"


# Flavours


def test_a_host_without_python(zoo: Lab) -> None:
    assert zoo.run("n1", "systemctl is-system-running").strip() == "running"
    assert _fails(zoo, "n1", "ls /usr/bin/python* /usr/lib/python* /usr/lib/*/libpython*")
    assert _fails(zoo, "n1", "command -v python3 || command -v python")
    zoo.run("n1", "command -v conntrack")


def test_a_host_without_what_kubernetes_asks_for(zoo: Lab) -> None:
    for tool in ("conntrack", "socat", "ipset", "ebtables", "ethtool", "iptables"):
        assert _fails(zoo, "n2", f"command -v {tool}"), tool
        zoo.run("n1", f"command -v {tool}")
    assert _fails(zoo, "n2", "ls /usr/lib/*/libnetfilter_conntrack*")
    zoo.run("n2", "command -v python3 && dpkg --audit && apt-get check")


def test_a_host_with_a_sudo_password_only(zoo: Lab) -> None:
    assert zoo.host("n3").login == "ops"
    assert _fails(zoo, "n3", "true", user="root")
    password = zoo.access.sudo_password() + "\n"
    assert zoo.run("n3", "sudo -S -p '' id -un", stdin=password).strip() == "root"
    host = load(zoo.cluster_file).cluster.spec.hosts[2]
    assert host.user == "ops"
    assert zoo.access.sudo_password() not in zoo.cluster_file.read_text()


def test_a_host_with_defects_that_can_be_mended(zoo: Lab) -> None:
    assert "/swapfile" in zoo.run("n4", "cat /proc/swaps")
    assert "/swapfile none swap" in zoo.run("n4", "cat /etc/fstab")
    assert ":6443" in zoo.run("n4", "ss --listening --tcp --numeric")
    assert zoo.run("n4", "systemctl is-system-running").strip() == "running"
    zoo.run("n4", "swapoff -a; systemctl stop occupied-port")
    assert "/swapfile" not in zoo.run("n4", "cat /proc/swaps")
    assert ":6443" not in zoo.run("n4", "ss --listening --tcp --numeric")
    assert "/swapfile" not in zoo.run("n1", "cat /proc/swaps")


# Faults


def test_cut_and_heal(pair: Lab) -> None:
    before = pair.run("n1", "cat /proc/sys/kernel/random/boot_id")
    pair.cut("n1")
    assert [host.state for host in pair.status()] == ["cut", "running"]
    assert _fails(pair, "n2", f"ping -c 1 -W 1 {pair.host('n1').address}")
    with pytest.raises(LabError):
        pair.run("n1", "true")
    pair.heal("n1")
    assert pair.run("n1", "cat /proc/sys/kernel/random/boot_id") == before, "the host went on running"
    pair.run("n2", f"ping -c 1 -W 5 {pair.host('n1').address}")


def test_a_cut_host_stays_cut_over_a_power_cycle(pair: Lab) -> None:
    pair.cut("n1")
    pair.kill("n1")
    assert pair.start("n1").state == "cut"
    assert pair.status()[0].state == "cut"
    pair.heal("n1")
    _until(lambda: pair.status()[0].state == "running")


def test_kill_and_start(pair: Lab) -> None:
    before = pair.run("n1", "echo kept >/root/kept; cat /proc/sys/kernel/random/boot_id")
    pids = pair.host("n1").machine.group.pids()
    pair.kill("n1")
    assert pair.status()[0].state == "off"
    _until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()])  # the last ones are seen off by init
    assert not Path("/sys/class/net", pair.host("n1").network.link("n1")).exists()
    assert pair.status()[1].state == "running"
    started = pair.start("n1")
    assert started.state == "running"
    assert pair.run("n1", "cat /root/kept; rm /root/kept").strip() == "kept"
    assert pair.run("n1", "cat /proc/sys/kernel/random/boot_id") != before
    assert pair.start("n1").seconds == 0, "a host that is on is left alone"


def test_a_host_can_reboot_and_power_itself_off(pair: Lab) -> None:
    before = pair.run("n2", "cat /proc/sys/kernel/random/boot_id")
    subprocess.run(pair.ssh_command("n2", "systemctl reboot"), capture_output=True, check=False)
    _until(lambda: _boot_id(pair, "n2") not in ("", before))
    assert pair.status()[1].state == "running"
    subprocess.run(pair.ssh_command("n2", "systemctl poweroff"), capture_output=True, check=False)
    _until(lambda: pair.status()[1].state == "off")
    (_, booted) = pair.up()
    assert (booted.name, booted.state) == ("n2", "running")
    assert booted.seconds > 0


def test_fill_and_free(pair: Lab) -> None:
    taken = pair.fill("n1")
    assert taken > 15 * 2**30
    assert pair.status()[0].disk_full
    for file in ("/root/probe", "/var/lib/containerd/probe", "/var/lib/kubelet/probe", "/var/lib/etcd-probe"):
        done = subprocess.run(
            pair.ssh_command("n1", f"dd if=/dev/zero of={file} bs=64k count=2"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert "No space left on device" in done.stderr
        pair.run("n1", f"rm -f {file}")
    pair.run("n2", "dd if=/dev/zero of=/root/probe bs=1M count=2 && rm /root/probe")
    pair.free("n1")
    pair.run("n1", "dd if=/dev/zero of=/root/probe bs=1M count=2 && rm /root/probe")
    assert not pair.status()[0].disk_full
    pair.fill("n1", leave=64 * 2**20)
    free = int(pair.run("n1", "stat --file-system --format='%a %S' / | awk '{print $1 * $2}'"))
    assert 60 * 2**20 <= free <= 64 * 2**20
    pair.free("n1")


# The lab as a whole


def test_up_again_changes_nothing(pair: Lab) -> None:
    record, text = pair.record, pair.cluster_file.read_text()
    pids = [host.machine.leader() for host in pair.hosts]
    assert [host.seconds for host in pair.up()] == [0, 0]
    assert pair.record == record
    assert pair.cluster_file.read_text() == text
    assert [host.machine.leader() for host in pair.hosts] == pids


def test_labs_side_by_side_and_one_that_grows(pair: Lab, make_lab: MakeLab) -> None:
    other = make_lab(hosts=1)
    assert not other.record.subnet.overlaps(pair.record.subnet)
    assert sum(other.record.subnet.overlaps(network) for network in networks_in_use()) > 0
    assert _fails(pair, "n1", f"ping -c 1 -W 1 {other.hosts[0].address}")
    first = other.hosts[0].machine.leader()
    other.up(hosts=3, flavours={"n3": "nopython"})
    assert [host.state for host in other.status()] == ["running"] * 3
    assert other.hosts[0].machine.leader() == first
    assert [host.name for host in load(other.cluster_file).cluster.spec.hosts] == ["n1", "n2", "n3"]
    with pytest.raises(UsageError, match="only workers can be added"):
        other.up(hosts=2)
    folder, file = other.folder, other.cluster_file
    assert other.down() is None
    assert not folder.exists()
    assert not file.exists()
    with pytest.raises(LabError, match="There is no lab"):
        other.down()
    assert pair.run("n1", "echo alive").strip() == "alive"


def test_a_lab_comes_back_after_the_machine_was_restarted(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, flavours={"n2": "sudo-password"})
    lab.run("n1", "echo kept >/root/kept")
    lab.cut("n2")
    # All that a restart takes away; what is on disk stays.
    teardown.remove_everything(
        folder=lab.folder,
        machines=[host.machine for host in lab.hosts],
        group=Subtree(path=f"kubexm-lab-{lab.record.prefix}", trees=hierarchies()),
        network=lab.network,
    )
    assert [host.state for host in lab.status()] == ["off", "off"]
    assert [host.disk for host in lab.status()] == [None, None]
    assert [host.state for host in lab.up()] == ["running", "cut"]
    assert lab.run("n1", "cat /root/kept").strip() == "kept"
    lab.heal("n2")
    _until(lambda: lab.status()[1].state == "running")
    lab.down()


@pytest.mark.usefixtures("lab_machine")
def test_two_labs_made_at_the_same_time_do_not_get_in_each_other_s_way(tmp_path: Path) -> None:
    labs = [Lab(name, labs=tmp_path / "labs") for name in ("one", "two")]
    try:
        with ThreadPoolExecutor(2) as pool:
            makers = [pool.submit(lab.up, hosts=1, save=tmp_path / f"{lab.name}.yaml") for lab in labs]
            assert [host.state for maker in makers for host in maker.result()] == ["running", "running"]
        assert not labs[0].record.subnet.overlaps(labs[1].record.subnet)
        assert labs[0].network.bridge != labs[1].network.bridge
    finally:
        for lab in labs:
            if lab.exists:
                lab.down()


def test_a_cluster_file_that_somebody_changed_is_kept(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1)
    text = lab.cluster_file.read_text() + "# mine\n"
    lab.cluster_file.write_text(text)
    lab.up()
    assert lab.cluster_file.read_text() == text
    file = lab.cluster_file
    assert lab.down() == file
    assert file.read_text() == text


def test_the_commands(pair: Lab, tmp_path: Path) -> None:
    def kubexm(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kubexm", "lab", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    name = ("--name", pair.name)
    shown = json.loads(kubexm("status", *name, "-o", "json").stdout)
    assert [host["state"] for host in shown[0]["hosts"]] == ["running", "running"]
    assert "10.0.0." not in shown
    assert kubexm("ssh", *name, "n1", "sh", "-c", "exit 7").returncode == 7
    exact = kubexm("ssh", *name, "n1", "--", "printf", "%s|", "a b", "$HOME", "-n")
    assert exact.stdout == "a b|$HOME|-n|"
    assert kubexm("ssh", *name, "n2", "echo one | tr o 0").stdout == "0ne\n"
    assert kubexm("cut", *name, "n2").returncode == 0
    assert "cut" in kubexm("status", *name).stdout
    assert kubexm("heal", *name, "n2").returncode == 0
    assert kubexm("fill", *name, "n2", "--leave", "1G").returncode == 0
    assert kubexm("fill", *name, "n2", "--free").returncode == 0
    assert kubexm("kill", *name, "n2").returncode == 0
    assert "running" in kubexm("start", *name, "n2").stdout
    unknown = kubexm("cut", *name, "n3")
    assert unknown.returncode != 0
    assert f"The lab {pair.name!r} has no host 'n3'." in unknown.stderr
    assert "Its hosts are n1, n2." in unknown.stderr
    assert "Traceback" not in unknown.stderr


def test_spare_loop_devices_are_removed() -> None:
    number = 4000 + os.getpid() % 1000
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(control, 0x4C80, number)
    finally:
        os.close(control)
    device = Path(f"/dev/loop{number}")
    assert device.exists()
    release_loops({number, 0})
    _until(lambda: not device.exists())
    assert Path("/dev/loop0").exists()


# Machines of another kind


@pytest.mark.usefixtures("lab_machine")
def test_a_machine_that_has_only_control_groups_of_version_2(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_ON_VERSION_2)
    environment = {"KUBEXM_STATE": str(tmp_path / "state")}
    with sandbox(f"v2-{os.getpid()}", only_version_2=True) as machine:
        shown = machine.run(program, str(tmp_path), env=environment, timeout=300)
    answer = json.loads(shown.splitlines()[-1])
    assert answer["states"] == ["running"]
    assert answer["trees"] == ["/sys/fs/cgroup"]
    assert answer["inside"] == "cgroup2fs"
    assert answer["left"] == []


_ON_VERSION_2 = """
import json, os, sys
from pathlib import Path
from kubexm.lab import Lab
from kubexm.lab.cgroups import hierarchies
os.chdir(sys.argv[1])
lab = Lab("lab")
before = {folder for folder, _, _ in os.walk("/sys/fs/cgroup")}
states = [host.state for host in lab.up(hosts=1)]
inside = lab.run("n1", "stat -fc %T /sys/fs/cgroup; mkdir /sys/fs/cgroup/probe && rmdir /sys/fs/cgroup/probe").strip()
lab.down()
left = sorted({folder for folder, _, _ in os.walk("/sys/fs/cgroup")} - before)
trees = [str(tree.root) for tree in hierarchies()]
print(json.dumps({"states": states, "trees": trees, "inside": inside, "left": left}))
"""


@pytest.mark.usefixtures("lab_machine")
def test_a_machine_whose_firewall_keeps_the_hosts_apart(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_BEHIND_A_FIREWALL)
    environment = {"KUBEXM_STATE": str(tmp_path / "state")}
    with sandbox(f"fw-{os.getpid()}") as machine:
        shown = machine.run(program, str(tmp_path), env=environment, timeout=300)
    answer = json.loads(shown.splitlines()[-1])
    if answer is None:
        pytest.skip("this kernel does not pass bridged packets to iptables")
    assert answer["message"].startswith("The hosts are up but cannot reach each other")
    assert f"iptables -I FORWARD -i {answer['bridge']}" in answer["hint"]
    assert answer["after"] == ["running", "running"], "what the hint says helps"


_BEHIND_A_FIREWALL = """
import json, os, subprocess, sys
from pathlib import Path
from kubexm.errors import LabError
from kubexm.lab import FLAVOURS, SYSTEMS, Lab
from kubexm.lab.image import ImageStore
from kubexm.lab.places import cache_directory
os.chdir(sys.argv[1])
(tree,) = ImageStore(cache_directory()).layers(SYSTEMS["debian12"], FLAVOURS["plain"])
def iptables(*words):
    subprocess.run(["chroot", tree, "iptables", *words], check=True)
setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
answer = None
if setting.exists():
    setting.write_text("1")
    iptables("-P", "FORWARD", "DROP")
    lab = Lab("lab")
    try:
        lab.up(hosts=2)
    except LabError as error:
        bridge = lab.network.bridge
        answer = {"message": error.message, "hint": error.hint, "bridge": bridge}
        iptables("-I", "FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT")
        answer["after"] = [host.state for host in lab.up()]
    lab.down()
print(json.dumps(answer))
"""


def _fails(lab: Lab, host: str, command: str, *, user: str = "", stdin: str = "") -> bool:
    try:
        lab.run(host, command, user=user, stdin=stdin)
    except LabError:
        return True
    return False


def _boot_id(lab: Lab, host: str) -> str:
    try:
        return lab.run(host, "cat /proc/sys/kernel/random/boot_id")
    except LabError:
        return ""


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.1)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
