"""Delete gives hosts back as they were before create: proven by comparing all that could differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import Outcome, create, edit, killed, kubexm, started_kubexm
from tests.cluster.conftest import MakeLab
from tests.cluster.host_snapshot import Snapshot, allowed_to_differ, take
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [PATIENT, BUNDLE]
CHANGED = ("file", "unit", "mount", "interface", "rule", "process", "sysctl", "route", "port")


def delete(lab: Lab, *options: str) -> Outcome:
    return kubexm(lab.cluster_file, "delete", "cluster", "--yes", *options)


def sh(lab: Lab, host: str, script: str) -> str:
    return lab.run(host, script, user="root")


def snapshots(lab: Lab) -> dict[str, Snapshot]:
    return {host.name: take(lab, host.name) for host in lab.hosts}


def assert_as_before(before: dict[str, Snapshot], lab: Lab, *hosts: str) -> None:
    allowed = allowed_to_differ()
    for name in hosts or before:
        found = before[name].differences(take(lab, name), allowed)
        assert not found, (name, found)


def work_files(lab: Lab) -> list[str]:
    """What the work directory holds, but for records of runs."""
    work = lab.cluster_file.parent / ".kubexm" / lab.name
    return sorted(path.name for path in work.rglob("*") if path.is_file() and "runs" not in path.parts)


@pytest.fixture(scope="module")
def single(make_lab: Callable[..., Lab]) -> Lab:
    """One host that is everything."""
    return make_lab(topology="single")


@pytest.fixture(scope="module")
def pair(make_lab: Callable[..., Lab]) -> Lab:
    """A control plane, and a worker that lacks the packages a node needs; root cannot log in to it directly."""
    return make_lab(topology="1+1", flavours={"n2": "airgapped"})


def test_hosts_are_as_before(single: Lab) -> None:
    before = snapshots(single)
    create(single)
    differs = before["n1"].differences(take(single, "n1"), allowed_to_differ())
    for section in CHANGED:
        assert any(line.startswith(f"{section} ") for line in differs), f"a cluster that changes no {section}?"
    assert any(line.startswith("file /var/log/pods") for line in differs), "logs of a cluster are not the system's"
    done = delete(single)
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
    assert done.states["removal.host.workloads", "n1"] == "succeeded", "what runs is stopped before all else"
    assert_as_before(before, single)
    assert work_files(single) == []

    again = delete(single)
    assert (again.exit_code, again.result["changed"]) == (0, False)


@LONG
@pytest.mark.parametrize(
    ("hosts", "spec"),
    [
        (1, {"kubernetes": {"type": "kubexm"}}),
        (1, {"etcd": {"type": "kubeadm"}}),
        (4, {"roleGroups": {"etcd": ["n1"], "controlPlane": ["n2"], "worker": ["n3"], "loadbalancer": ["n4"]}}),
    ],
    ids=["binary", "kubeadm-stacked", "each-on-its-own"],
)
def test_hosts_are_as_before_in_every_mode(fresh_lab: MakeLab, hosts: int, spec: dict[str, Any]) -> None:
    lab = fresh_lab(hosts=hosts)
    edit(lab.cluster_file, **spec)
    before = snapshots(lab)
    create(lab)
    for name, host in before.items():
        assert host.differences(take(lab, name), allowed_to_differ()), f"a cluster that changes nothing on {name}?"
    done = delete(lab)
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
    assert_as_before(before, lab)
    assert work_files(lab) == []


@LONG
def test_a_missing_host_is_done_later(pair: Lab) -> None:
    before = snapshots(pair)
    create(pair)
    pair.cut("n2")
    try:
        done = delete(pair)
    finally:
        pair.heal("n2")
    assert (done.exit_code, list(done.result["lost_hosts"])) == (4, ["n2"]), (done.stderr, done.errors)
    assert "n2 could not be reached" in done.warnings["removal.host.work-directory", "control-node"][0]
    assert_as_before(before, pair, "n1")
    assert "uid" in work_files(pair)
    assert sh(pair, "n2", "systemctl is-active kubelet").strip() == "active"

    rest = delete(pair)
    assert (rest.exit_code, rest.errors, rest.warnings) == (0, {}, {}), rest.stderr
    assert rest.states["removal.host.workloads", "n1"] == "satisfied"
    assert rest.states["removal.host.packages", "n2"] == "succeeded", "the bundle brought packages, and they go again"
    assert_as_before(before, pair)
    assert work_files(pair) == []


@LONG
def test_another_clusters_host_stops_all_of_it(pair: Lab) -> None:
    mark = json.dumps({"uid": "5f1d", "name": "elsewhere"})
    sh(pair, "n2", f"mkdir -p /var/lib/kubexm && echo '{mark}' >/var/lib/kubexm/cluster.json")
    sh(pair, "n1", "mkdir -p /var/lib/kubexm/originals/file")
    try:
        done = delete(pair)
        assert done.exit_code == 1
        assert "it belongs to elsewhere" in done.errors["removal.guard.membership", "n2"]["message"]
        assert done.states["removal.host.mark", "n1"] == "blocked"
        assert sh(pair, "n1", "ls /var/lib/kubexm").split() == ["originals"]
    finally:
        for host in ("n1", "n2"):
            sh(pair, host, "rm -rf /var/lib/kubexm")


@LONG
def test_half_made_clusters_are_deleted_too(single: Lab) -> None:
    before = snapshots(single)
    for point in ("containerd.install", "images.bring.import", "kubeadm.run.api"):
        killed(started_kubexm(single.cluster_file, "create", "cluster", until=point))
        sh(single, "n1", "sed -i 's/[0-9]*$/0/' /var/lib/kubexm/lease 2>/dev/null; :")  # or wait until it runs out
        done = delete(single)
        assert (done.exit_code, done.errors) == (0, {}), (point, done.stderr)
        assert_as_before(before, single)


@LONG
def test_a_delete_that_was_killed_is_gone_on_with(single: Lab) -> None:
    before = snapshots(single)
    create(single)
    for point in ("removal.host.workloads", "removal.host.originals"):
        killed(started_kubexm(single.cluster_file, "delete", "cluster", "--yes", until=point))
        sh(single, "n1", "sed -i 's/[0-9]*$/0/' /var/lib/kubexm/lease 2>/dev/null; :")
    done = delete(single)
    assert (done.exit_code, done.errors) == (0, {}), done.stderr
    assert_as_before(before, single)
    assert work_files(single) == []


@LONG
def test_what_users_changed_stays_and_what_is_kept_is_said(single: Lab) -> None:
    before = snapshots(single)
    create(single)
    sh(
        single,
        "n1",
        "echo 10.9.9.9 mine >>/etc/hosts; echo '# mine' >>/etc/crictl.yaml; echo 5 >/proc/sys/kernel/panic",
    )
    images = sh(single, "n1", "ctr -n k8s.io images ls -q | sort")
    kept = delete(single, "--keep-data", "--keep-runtime")
    assert (kept.exit_code, kept.errors) == (0, {}), kept.stderr
    told = "\n".join(line for lines in kept.warnings.values() for line in lines)
    assert "kept on purpose (--keep-data, --keep-runtime): " in told
    assert "/var/lib/etcd" in told
    assert "/etc/hosts was changed by somebody else since: only kubexm's own lines were taken out" in told
    assert "sysctl kernel/panic was changed by somebody else since" in told
    assert sh(single, "n1", "tail -n 1 /etc/hosts; grep -c kubexm /etc/hosts; :").split("\n")[:2] == [
        "10.9.9.9 mine",
        "0",
    ]
    assert sh(single, "n1", "systemctl is-active containerd; cat /proc/sys/kernel/panic").split() == ["active", "5"]
    assert sh(single, "n1", "ctr -n k8s.io images ls -q | sort") == images
    assert sh(single, "n1", "ctr -n k8s.io containers ls -q; ls /var/lib/etcd").split() == ["member"]

    rest = delete(single)
    assert (rest.exit_code, rest.errors) == (0, {}), rest.stderr
    assert "/etc/crictl.yaml was changed by somebody else since" in str(rest.warnings)
    sh(single, "n1", "sed -i '/10.9.9.9/d' /etc/hosts; rm /etc/crictl.yaml; echo 1 >/proc/sys/kernel/panic")
    assert_as_before(before, single)
