"""Clusters from bare hosts, as users make them: every topology, again, edited, grown, interrupted; each ends Ready."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle
from tests.cluster.commands import Outcome, create, edit, ended, killed, kubectl, kubexm, start_kubexm, started_kubexm
from tests.cluster.host_snapshot import allowed_to_differ, take
from tests.cluster.marks import BUNDLE, LONG, PATIENT

MakeLab = Callable[..., Lab]
_TIMEOUT, _TIMEOUT_FILE = "net.ipv4.tcp_fin_timeout", "/proc/sys/net/ipv4/tcp_fin_timeout"
"""A kernel parameter that each host of a lab has for itself."""

pytestmark = [PATIENT, BUNDLE]


@pytest.fixture
def fresh_lab(make_lab: MakeLab) -> Iterator[MakeLab]:
    """Makes labs that are gone after the test: a cluster nobody looks at still takes its share of the machine."""
    made: list[Lab] = []

    def make(**shape: object) -> Lab:
        made.append(make_lab(**shape))
        return made[-1]

    yield make
    for lab in made:
        lab.down()


def resume(lab: Lab) -> Outcome:
    """A resume of the last run that must end well."""
    done = kubexm(lab.cluster_file, "runs", "resume", "last")
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    return done


def ready_nodes(lab: Lab, host: str = "n1") -> set[str]:
    """The nodes that say they are Ready."""
    found = json.loads(kubectl(lab, "get", "nodes", "-o", "json", host=host))
    return {
        node["metadata"]["name"]
        for node in found["items"]
        if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    }


def assert_nothing_to_do(lab: Lab) -> None:
    """A second run changes nothing and says so."""
    again = create(lab)
    assert again.result["changed"] is False, again.changed


def assert_parts_can_be_chosen(lab: Lab) -> None:
    """--only and --skip by component: nothing while all is as in the file, then just what was named."""
    for words in (("--only", "etcd,kubelet,kubeadm.run.manifests"), ("--skip", "pki")):
        part = create(lab, *words)
        assert part.result["changed"] is False, (words, part.changed)
    edit(lab.cluster_file, kubernetes={"kubelet": {"config": {"maxPods": 99}}})
    part = create(lab, "--only", "kubelet", "--only", "*.kubelet")
    assert part.changed == {"kubelet.install.settings", "kubeadm.run.kubelet", "nodes.join.kubelet"}
    for host in ("n1", "n4"):
        assert "maxPods: 99" in lab.run(host, "cat", "/etc/kubernetes/kubelet.yaml")
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}
    create(lab)


def images_of(lab: Lab, host: str) -> str:
    return lab.run(host, "ctr", "-n", "k8s.io", "images", "ls", "-q")


def test_three_control_planes_and_workers_come_up_stay_and_change_one_at_a_time(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="3+2")
    done = create(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}
    assert done.states["verify.probe.workloads", "n1"] == "succeeded"
    assert "kube-apiserver" not in images_of(lab, "n4"), "workers never receive control-plane images"
    assert "127.0.0.1:6443" in lab.run("n4", "ss", "-Hltn"), "a worker's own balancer"
    kubeconfig = lab.cluster_file.parent / ".kubexm" / lab.name / "kubeconfig"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert_nothing_to_do(lab)
    assert_parts_can_be_chosen(lab)

    edit(lab.cluster_file, kubernetes={"apiServer": {"extraArgs": {"audit-log-maxage": "7"}}})
    changed = create(lab)
    assert "kubeadm.run.manifests" in changed.changed
    assert not changed.changed & {"kubelet.install.settings", "containerd.start.service", "etcd.keep.start"}
    for host in ("n1", "n2", "n3"):
        assert "--audit-log-maxage=7" in lab.run(host, "cat", "/etc/kubernetes/manifests/kube-apiserver.yaml")
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}

    edit(lab.cluster_file, network={"podCIDR": "10.77.0.0/16"})
    refused = kubexm(lab.cluster_file, "create", "cluster")
    assert refused.exit_code == 2
    assert "10.244.0.0/16" in refused.stderr
    assert "10.77.0.0/16" in refused.stderr


def test_a_single_node_of_binaries_survives_the_death_of_kubexm(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="single")
    edit(lab.cluster_file, kubernetes={"type": "kubexm"})
    first = started_kubexm(lab.cluster_file, "create", "cluster", until="etcd.form.start")
    killed(first)
    second = started_kubexm(lab.cluster_file, "runs", "resume", "last", until="binary.run.api-server")
    killed(second)
    resume(lab)
    assert ready_nodes(lab) == {"n1"}
    assert lab.run("n1", "systemctl", "is-active", "kube-apiserver", "kube-scheduler", "kube-proxy").split() == [
        "active",
        "active",
        "active",
    ]
    assert_nothing_to_do(lab)


def test_a_worker_cut_off_half_way_stops_nobody_else_and_is_finished_by_resume(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+2")
    edit(lab.cluster_file, execution={"maxFailedWorkers": 1})
    running = started_kubexm(lab.cluster_file, "create", "cluster", until="containerd.install")
    lab.cut("n3")
    done = ended(running)
    assert done.exit_code == 4, (done.stderr[-2000:], done.errors)
    assert "n3" in done.result["lost_hosts"]
    assert ready_nodes(lab) == {"n1", "n2"}
    lab.heal("n3")
    resumed = resume(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3"}
    assert {host for _, host in resumed.ran} <= {"n1", "n3", "control-node"}, "only what was lost is done again"


@LONG
@pytest.mark.parametrize("version", ["v1.33.13", "v1.34.4"])
@pytest.mark.parametrize(
    ("kind", "etcd"),
    [("kubeadm", "kubeadm"), ("kubeadm", "kubexm"), ("kubexm", "kubexm")],
    ids=["kubeadm-stacked", "kubeadm", "binary"],
)
@pytest.mark.parametrize("topology", ["single", "1+2", "3+2"])
def test_every_topology_in_every_mode(fresh_lab: MakeLab, topology: str, kind: str, etcd: str, version: str) -> None:
    found = built_bundle(cache_directory())
    assert found is not None
    if found.kubernetes and version not in found.kubernetes:
        pytest.skip(f"the lab bundle is not for {version}: `kubexm lab bundle --kubernetes {version[1:]}` makes one")
    lab = fresh_lab(topology=topology)
    edit(lab.cluster_file, kubernetes={"type": kind, "version": version}, etcd={"type": etcd})
    create(lab)
    assert ready_nodes(lab) == {host.name for host in lab.hosts}
    assert_nothing_to_do(lab)


@LONG
def test_etcd_on_hosts_of_its_own(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(hosts=5)
    edit(lab.cluster_file, roleGroups={"etcd": ["n1", "n2", "n3"], "controlPlane": ["n4"], "worker": ["n5"]})
    create(lab)
    assert ready_nodes(lab, "n4") == {"n4", "n5"}
    assert lab.run("n1", "sh", "-c", "command -v kubelet || echo none").strip() == "none"
    assert_nothing_to_do(lab)


@LONG
def test_a_host_added_to_the_file_joins_and_one_taken_out_is_left_alone(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+2")
    whole = lab.cluster_file.read_text()
    edit(lab.cluster_file, roleGroups={"etcd": ["n1"], "controlPlane": ["n1"], "worker": ["n2"]})
    create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}
    lab.cluster_file.write_text(whole)
    joined = create(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3"}
    touched = {host for (node, host), state in joined.states.items() if state == "succeeded" and "verify" not in node}
    assert "n2" not in touched - {"n1", "n3", "control-node"}


@LONG
@pytest.mark.parametrize("fault", ["reboot", "power"])
def test_a_host_rebooted_or_powered_off_half_way(fresh_lab: MakeLab, fault: str) -> None:
    lab = fresh_lab(topology="1+2")
    running = started_kubexm(lab.cluster_file, "create", "cluster", until="images.bring.import")
    lab.kill("n1")
    if fault == "reboot":
        lab.start("n1")
    done = ended(running)
    assert done.exit_code in (0, 1, 4), done.stderr[-2000:]
    if fault == "power":
        assert done.exit_code == 1
        lab.start("n1")
    if done.exit_code:
        resume(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3"}


@LONG
def test_kubexm_may_die_at_any_moment_and_resume_goes_on(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+1")
    runs, moments = lab.cluster_file.parent / ".kubexm" / lab.name / "runs", [random.uniform(2, 14) for _ in range(8)]
    for moment in moments:
        begun = runs.is_dir() and any(runs.iterdir())
        words = ("runs", "resume", "last") if begun else ("create", "cluster")
        process = start_kubexm(lab.cluster_file, *words)
        try:
            _, told = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            killed(process)
        else:
            assert process.returncode == 0, (moments, told)
            break
    else:
        resume(lab)
    assert ready_nodes(lab) == {"n1", "n2"}, moments
    assert_nothing_to_do(lab)


@LONG
def test_a_full_disk_says_so_and_resume_finishes(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="single")
    running = started_kubexm(lab.cluster_file, "create", "cluster", until="containerd.install")
    lab.fill("n1")
    done = ended(running)
    assert done.exit_code == 1
    assert any("space" in error["message"] + error.get("stderr", "") for error in done.errors.values()), done.errors
    lab.free("n1")
    resume(lab)
    assert ready_nodes(lab) == {"n1"}


def test_a_taken_port_and_a_wrong_bundle_stop_before_anything_is_changed(fresh_lab: MakeLab, tmp_path: Path) -> None:
    lab = fresh_lab(topology="single")
    lab.run("n1", "systemd-run", "-q", "--unit=squatter", "socat", "TCP-LISTEN:2379,fork,reuseaddr", "EXEC:cat")
    done = kubexm(lab.cluster_file, "create", "cluster")
    assert done.exit_code == 1
    [error] = done.errors.values()
    assert "2379" in error["message"]
    assert error["hint"]
    lab.run("n1", "systemctl", "stop", "squatter")
    assert lab.run("n1", "sh", "-c", "ls /var/lib/kubexm/cluster.json 2>/dev/null || echo none").strip() == "none"

    edit(lab.cluster_file, assets={"sources": [{"bundle": str(tmp_path)}]})
    wrong = kubexm(lab.cluster_file, "create", "cluster")
    assert wrong.exit_code in (1, 2)
    assert str(tmp_path) in wrong.stderr

    found = built_bundle(cache_directory())
    assert found is not None
    edit(lab.cluster_file, assets={"sources": [{"bundle": str(found.path)}]}, kubernetes={"version": "v1.32.3"})
    wrong = kubexm(lab.cluster_file, "create", "cluster")
    assert wrong.exit_code in (1, 2)
    assert "v1.32.3" in wrong.stderr, "a bundle for another version"

    version = max(found.kubernetes)
    shutil.copytree(found.path, tmp_path / "damaged")
    [kubelet] = (tmp_path / "damaged" / "files").rglob(f"{version}/**/kubelet")
    with kubelet.open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"damaged")
    damaged = {"sources": [{"bundle": str(tmp_path / "damaged")}]}
    edit(lab.cluster_file, assets=damaged, kubernetes={"version": version})
    wrong = kubexm(lab.cluster_file, "create", "cluster")
    assert wrong.exit_code in (1, 2)
    assert "kubelet" in wrong.stderr
    assert lab.run("n1", "sh", "-c", "ls /var/lib/kubexm/cluster.json 2>/dev/null || echo none").strip() == "none"


@LONG
def test_rollback_undoes_what_this_run_changed_and_nothing_else(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="single")
    lab.run("n1", "sh", "-c", "mkdir -p /etc/containerd && echo mine >/etc/containerd/config.toml")
    before = take(lab, "n1")
    edit(lab.cluster_file, kubernetes={"apiServer": {"extraArgs": {"no-such-flag": "1"}}})
    done = kubexm(lab.cluster_file, "create", "cluster", "--rollback")
    assert done.exit_code == 1
    assert any("unknown flag: --no-such-flag" in error["message"] for error in done.errors.values()), done.errors
    assert lab.run("n1", "cat", "/etc/containerd/config.toml").strip() == "mine"
    units = lab.run("n1", "sh", "-c", "systemctl is-active kubelet containerd etcd; :").split()
    assert units == ["inactive"] * 3
    assert lab.run("n1", "sh", "-c", "ls /etc/kubernetes/manifests 2>/dev/null; :") == ""
    differs = before.differences(take(lab, "n1"), allowed_to_differ("rollback"))
    assert not differs, differs

    # In a cluster that runs, the same takes back the change alone.
    edit(lab.cluster_file, kubernetes={"apiServer": {"extraArgs": {}}})
    create(lab)
    was = lab.run("n1", "cat", "/etc/kubernetes/manifests/kube-controller-manager.yaml")
    edit(lab.cluster_file, kubernetes={"controllerManager": {"extraArgs": {"no-such-flag": "1"}}})
    done = kubexm(lab.cluster_file, "create", "cluster", "--rollback")
    assert done.exit_code == 1
    assert lab.run("n1", "cat", "/etc/kubernetes/manifests/kube-controller-manager.yaml") == was
    assert ready_nodes(lab) == {"n1"}
    edit(lab.cluster_file, kubernetes={"controllerManager": {"extraArgs": {}}}, system={"sysctl": {_TIMEOUT: 33}})
    was = lab.run("n1", "cat", _TIMEOUT_FILE)
    create(lab)
    assert lab.run("n1", "cat", _TIMEOUT_FILE).strip() == "33"
    edit(lab.cluster_file, system={"sysctl": {}})
    back = create(lab)
    assert f"+{_TIMEOUT} = {was.strip()}" in back.diffs["os.host.sysctl", "n1"], "what left the file goes back"
    assert lab.run("n1", "cat", _TIMEOUT_FILE) == was
    assert_nothing_to_do(lab)


def test_plans_need_no_host(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="single")
    lab.cut("n1")
    line = [sys.executable, "-m", "kubexm", "plan", "create", "--offline", "-f", str(lab.cluster_file), "-o", "table"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "kubeadm.run.api" in done.stdout
    assert "facts were assumed" in done.stderr
