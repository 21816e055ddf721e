"""Clusters from bare hosts, as users make them: every topology, again, edited, grown, interrupted; each ends Ready."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle
from tests.cluster.commands import (
    Outcome,
    asked_meanwhile,
    assert_named,
    assert_nothing_to_do,
    create,
    edit,
    ended,
    killed,
    kubectl,
    kubexm,
    nodes_seen_from_here,
    ready_nodes,
    resume,
    start_kubexm,
    started_kubexm,
)
from tests.cluster.conftest import MakeLab
from tests.cluster.host_snapshot import allowed_to_differ, take
from tests.cluster.marks import BUNDLE, LONG, PATIENT

_TIMEOUT, _TIMEOUT_FILE = "net.ipv4.tcp_fin_timeout", "/proc/sys/net/ipv4/tcp_fin_timeout"
"""A kernel parameter that each host of a lab has for itself."""

pytestmark = [PATIENT, BUNDLE]


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


def assert_one_at_a_time(done: Outcome, *hosts: str) -> None:
    """Each control plane was begun only when the one before it was proven well."""
    for one, following in pairwise(hosts):
        begun = done.order.index(("unit.running", f"kubeadm.run.manifests.{following}"))
        for proof in ("api", "controllers"):
            assert done.order.index(("unit.done", f"kubeadm.run.{proof}.{one}")) < begun, (proof, one)


def bare(lab: Lab, host: str = "n1") -> bool:
    """True if nothing of a cluster was begun there."""
    return lab.run(host, "sh", "-c", "ls /var/lib/kubexm/cluster.json 2>/dev/null || echo none").strip() == "none"


def test_three_control_planes_and_workers_come_up_stay_and_change_one_at_a_time(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="3+2")
    done = create(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}
    assert done.states["verify.probe.workloads", "cluster"] == "succeeded"
    assert "kube-apiserver" not in images_of(lab, "n4"), "workers never receive control-plane images"
    assert "127.0.0.1:6443" in lab.run("n4", "ss", "-Hltn"), "a worker's own balancer"
    asked = kubectl(lab, "get", "csr", "-o", "jsonpath={.items[*].spec.username}").split()
    assert [name.startswith("system:bootstrap:") for name in asked] == [True] * 2, "workers ask for their certificates"
    kubeconfig = lab.cluster_file.parent / ".kubexm" / lab.name / "kubeconfig"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert nodes_seen_from_here(lab) == (str(lab.host("n1").address), {"n1", "n2", "n3", "n4", "n5"})
    assert_nothing_to_do(lab)
    assert_parts_can_be_chosen(lab)

    edit(lab.cluster_file, kubernetes={"apiServer": {"extraArgs": {"audit-log-maxage": "7"}}})
    with asked_meanwhile(lab, "n4") as answers:
        changed = create(lab)
    assert "kubeadm.run.manifests" in changed.changed
    assert_one_at_a_time(changed, "n1", "n2", "n3")
    assert len(answers) > 20
    # One question may meet a server that just stops; whoever asks again is answered by another.
    assert all("200" in pair for pair in pairwise(answers)), answers
    assert not changed.changed & {"kubelet.install.settings", "containerd.start.service", "etcd.keep.start"}
    for host in ("n1", "n2", "n3"):
        assert "--audit-log-maxage=7" in lab.run(host, "cat", "/etc/kubernetes/manifests/kube-apiserver.yaml")
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}

    edit(lab.cluster_file, network={"podCIDR": "10.77.0.0/16"})
    refused = kubexm(lab.cluster_file, "create", "cluster")
    assert refused.exit_code == 2
    assert "10.244.0.0/16" in refused.stderr
    assert "10.77.0.0/16" in refused.stderr


def test_a_single_node_survives_wrong_bundles_a_taken_port_and_the_death_of_kubexm(
    fresh_lab: MakeLab, tmp_path: Path
) -> None:
    lab = fresh_lab(topology="single")
    edit(lab.cluster_file, kubernetes={"type": "kubexm"})
    assert_wrong_bundles_are_refused(lab, tmp_path)

    lab.run("n1", "systemd-run", "-q", "--unit=squatter", "socat", "TCP-LISTEN:2379,fork,reuseaddr", "EXEC:cat")
    done = kubexm(lab.cluster_file, "create", "cluster")
    assert_named(done, "n1")
    [error] = done.errors.values()
    assert "2379" in error["message"]
    assert bare(lab), "it stops before anything is changed"
    lab.run("n1", "systemctl", "stop", "squatter")

    killed(started_kubexm(lab.cluster_file, "runs", "resume", "last", until="etcd.form.start"))
    killed(started_kubexm(lab.cluster_file, "runs", "resume", "last", until="binary.run.api-server"))
    resume(lab)
    assert ready_nodes(lab) == {"n1"}
    units = lab.run("n1", "systemctl", "is-active", "kube-apiserver", "kube-scheduler", "kube-proxy").split()
    assert units == ["active", "active", "active"]
    assert_nothing_to_do(lab)


def assert_wrong_bundles_are_refused(lab: Lab, tmp_path: Path) -> None:
    """An empty directory, a bundle for another version and a damaged one; then the file names the right one again."""
    found = built_bundle(cache_directory())
    assert found is not None
    version = max(found.kubernetes)

    edit(lab.cluster_file, assets={"sources": [{"bundle": str(tmp_path)}]})
    wrong = kubexm(lab.cluster_file, "create", "cluster")
    assert wrong.exit_code in (1, 2)
    assert str(tmp_path) in wrong.stderr

    edit(lab.cluster_file, assets={"sources": [{"bundle": str(found.path)}]}, kubernetes={"version": "v1.32.3"})
    wrong = kubexm(lab.cluster_file, "create", "cluster")
    assert wrong.exit_code in (1, 2)
    assert "v1.32.3" in wrong.stderr, "a bundle for another version"

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
    assert bare(lab)
    shutil.rmtree(tmp_path / "damaged")
    edit(lab.cluster_file, assets={"sources": [{"bundle": str(found.path)}]})


def test_a_worker_cut_off_half_way_stops_nobody_else_and_is_finished_by_resume(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+2")
    running = started_kubexm(lab.cluster_file, "create", "cluster", until="containerd.install")
    lab.cut("n3")
    done = ended(running)
    assert done.exit_code == 4, (done.stderr[-2000:], done.errors)
    assert "n3" in done.result["lost_hosts"]
    assert ready_nodes(lab) == {"n1", "n2"}
    lab.heal("n3")
    resumed = resume(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3"}
    assert {host for _, host in resumed.ran} <= {"n1", "n3", "control-node", "cluster"}, (
        "only what was lost is done again"
    )


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
def test_a_control_plane_cut_off_half_way_is_named_and_resume_finishes(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="3+2")
    running = started_kubexm(lab.cluster_file, "create", "cluster", until="images.bring.import")
    lab.cut("n2")
    assert_named(ended(running), "n2")
    lab.heal("n2")
    resume(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3", "n4", "n5"}
    assert_nothing_to_do(lab)


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
        assert_named(done, "n1")
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
    preview = create(lab, "--dry-run")
    assert f"+{_TIMEOUT} = {was.strip()}" in preview.diffs["os.host.sysctl", "n1"], "what left the file goes back"
    create(lab)
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
