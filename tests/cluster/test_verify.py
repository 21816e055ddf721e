"""What runs on a cluster, on one that is there: proof that it works, what breaks it, and edits of everything on top.

One cluster for the whole file; each test leaves it as it found it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import Outcome, create, edit, killed, kubectl, kubexm, started_kubexm
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]
PROBE = ("verify.probe.workloads", "cluster")
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: "one"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: geheim-geheim}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: IMAGE, args: [netexec], resources: {requests: {cpu: 0.05}}}]}
"""


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """A control plane and a worker, created."""
    made = make_lab(topology="1+1")
    create(made)
    return made


@contextmanager
def edited(lab: Lab, **sections: Any) -> Iterator[Outcome]:
    """The cluster with an edited file; afterwards as it was."""
    before = lab.cluster_file.read_text()
    edit(lab.cluster_file, **sections)
    try:
        yield create(lab)
    finally:
        lab.cluster_file.write_text(before)
        create(lab)


def verify(lab: Lab, *options: str) -> Outcome:
    return kubexm(lab.cluster_file, "verify", *options)


def namespaces(lab: Lab) -> set[str]:
    return set(kubectl(lab, "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split())


def gone(lab: Lab, within: float = 60) -> bool:
    """True once no namespace of a probe is there."""
    until = time.monotonic() + within
    while any(name.startswith("kubexm-verify") for name in namespaces(lab)):
        if time.monotonic() > until:
            return False
        time.sleep(1)
    return True


def planned(lab: Lab) -> str:
    """What a dry run shows."""
    words = (sys.executable, "-m", "kubexm", "create", "cluster", "--dry-run", "-f", str(lab.cluster_file))
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def image_of(lab: Lab, name: str) -> str:
    found = lab.run("n1", "ctr", "-n", "k8s.io", "images", "ls", "-q").split()
    return next(image for image in found if f"/{name}:" in image)


def test_a_cluster_that_works_is_proven_and_nothing_stays(lab: Lab) -> None:
    done = verify(lab)
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    assert done.states[PROBE] == "succeeded"
    assert {state for name, state in done.states.items() if name != PROBE} == {"satisfied"}
    assert gone(lab)
    volumes = json.loads(kubectl(lab, "get", "pv", "-o", "json"))["items"]
    assert [one for one in volumes if one["spec"]["claimRef"]["namespace"] in namespaces(lab)] == []


def test_only_looking_changes_nothing(lab: Lab) -> None:
    done = verify(lab, "--no-probe")
    assert done.exit_code == 0, done.stderr
    assert set(done.states.values()) == {"satisfied"}
    assert PROBE not in done.states


def test_create_tries_workloads_again_only_if_it_changed_something(lab: Lab) -> None:
    assert create(lab).states[PROBE] == "satisfied"
    lab.run("n2", "sysctl", "-w", "net.ipv4.ip_forward=0")
    mended = create(lab)
    assert mended.changed == {"os.host.sysctl", "verify.probe.workloads"}
    assert gone(lab)


def test_a_verify_that_was_killed_leaves_nothing_for_long(lab: Lab) -> None:
    process = started_kubexm(lab.cluster_file, "verify", until="verify.probe.workloads")
    until = time.monotonic() + 60
    while not any(name.startswith("kubexm-verify") for name in namespaces(lab)) and time.monotonic() < until:
        time.sleep(0.2)
    killed(process)
    left = {name for name in namespaces(lab) if name.startswith("kubexm-verify")}
    assert left, "it was killed too early or too late to leave anything"
    until = time.monotonic() + 120
    done = verify(lab)
    while "is changing this cluster" in done.stderr and time.monotonic() < until:  # its lease runs out by itself
        time.sleep(5)
        done = verify(lab)
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    assert gone(lab)


def test_a_broken_network_between_nodes_is_found_and_named(lab: Lab) -> None:
    rule = ("INPUT", "-p", "udp", "--dport", "8472", "-j", "DROP")
    lab.run("n2", "iptables", "-I", *rule)
    try:
        done = verify(lab)
    finally:
        lab.run("n2", "iptables", "-D", *rule)
    assert done.exit_code == 1
    error = done.errors[PROBE]
    assert "a pod on n1 cannot reach" in error["message"]
    assert "n2" in error["message"]
    assert "8472" in error["hint"]
    assert gone(lab)
    assert verify(lab).exit_code == 0


def proven(lab: Lab, within: float = 180) -> bool:
    """True once verify finds nothing wrong any more."""
    until = time.monotonic() + within
    while verify(lab).exit_code:
        if time.monotonic() > until:
            return False
    return True


def test_names_that_are_not_answered_are_named(lab: Lab) -> None:
    # Its service leads nowhere: the pods are well, and only who asks through the service's address can tell.
    service = ("-n", "kube-system", "patch", "service", "kube-dns", "--type=json", "-p")
    path = "/spec/selector/k8s-app"
    kubectl(lab, *service, json.dumps([{"op": "replace", "path": path, "value": "nobody"}]))
    try:
        done = verify(lab)
    finally:
        kubectl(lab, *service, json.dumps([{"op": "replace", "path": path, "value": "kube-dns"}]))
    assert done.exit_code == 1
    error = done.errors[PROBE]
    assert "kubernetes.default.svc.cluster.local cannot be looked up at 10.96.0.10 from n1" in error["message"]
    assert "k8s-app=kube-dns" in error["hint"]
    assert proven(lab)
    create(lab)  # what somebody else changed, and be it back, is taken over again


def test_an_etcd_that_does_not_serve_is_named(lab: Lab) -> None:
    lab.run("n1", "systemctl", "stop", "etcd")
    try:
        done = verify(lab, "--no-probe")
    finally:
        lab.run("n1", "systemctl", "start", "etcd")
    assert done.exit_code == 1
    error = done.errors["verify.state.etcd", "n1"]
    assert "etcd on n1 has no quorum or does not answer" in error["message"]
    assert "journalctl -u etcd" in error["hint"]
    assert proven(lab)


def test_a_node_that_is_not_ready_and_a_scheduler_that_is_not_there_are_named(lab: Lab) -> None:
    lab.run("n2", "systemctl", "stop", "kubelet")
    manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"
    lab.run("n1", "mv", manifest, "/root/kube-scheduler.yaml")
    try:
        until = time.monotonic() + 90
        while "NotReady" not in kubectl(lab, "get", "nodes") and time.monotonic() < until:
            time.sleep(2)
        done = verify(lab, "--no-probe")
    finally:
        lab.run("n1", "mv", "/root/kube-scheduler.yaml", manifest)
        lab.run("n2", "systemctl", "start", "kubelet")
    assert done.exit_code == 1
    assert "n2 is not Ready" in done.errors["verify.state.nodes", "cluster"]["message"]
    assert "kube-scheduler-n1" in done.errors["verify.state.control-plane", "cluster"]["message"]
    create(lab)
    assert verify(lab).exit_code == 0


def test_labels_and_taints_follow_the_file(lab: Lab) -> None:
    hosts = [
        {"name": "n1", "address": str(lab.host("n1").address)},
        {
            "name": "n2",
            "address": str(lab.host("n2").address),
            "labels": {"disk": "ssd"},
            "taints": ["gpu=true:NoSchedule"],
        },
    ]
    with edited(lab, hosts=hosts) as done:
        assert "nodes.settle.settings" in done.changed
        node = json.loads(kubectl(lab, "get", "node", "n2", "-o", "json"))
        assert node["metadata"]["labels"]["disk"] == "ssd"
        assert {"key": "gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert create(lab).changed == set()
    node = json.loads(kubectl(lab, "get", "node", "n2", "-o", "json"))
    assert "disk" not in node["metadata"]["labels"]
    assert "taints" not in node["spec"]
    assert "node-role.kubernetes.io/worker" in node["metadata"]["labels"]


@pytest.mark.parametrize("deleted", ["n2", "n1"])
def test_a_deleted_node_comes_back_and_hides_no_other_trouble(lab: Lab, deleted: str) -> None:
    other = "n1" if deleted == "n2" else "n2"
    role = {"n1": "node-role.kubernetes.io/control-plane", "n2": "node-role.kubernetes.io/worker"}
    kubectl(lab, "delete", "node", deleted)
    kubectl(lab, "label", "node", other, f"{role[other]}-")
    done = create(lab)  # which proves the cluster, pods on both nodes included
    assert {"nodes.settle.settings"} < done.changed
    nodes = json.loads(kubectl(lab, "get", "nodes", "-o", "json"))["items"]
    assert {one["metadata"]["name"] for one in nodes} == {"n1", "n2"}
    assert all(role[one["metadata"]["name"]] in one["metadata"]["labels"] for one in nodes)
    assert create(lab).changed == set()


def test_dns_answers_names_of_the_file(lab: Lab) -> None:
    before = lab.cluster_file.read_text()
    edit(lab.cluster_file, dns={"coredns": {"replicas": 1, "hosts": {"db.example.com": "10.9.9.9"}}})
    shown = planned(lab)
    lab.cluster_file.write_text(before)
    assert re.search(r"\+ +10\.9\.9\.9 db\.example\.com", shown), shown
    with edited(lab, dns={"coredns": {"replicas": 1, "hosts": {"db.example.com": "10.9.9.9"}}}) as done:
        meant = {"coredns.apply.manifests", "record.settings.hosts", "record.settings.here", "verify.probe.workloads"}
        assert done.changed - {"verify.state.workloads"} == meant, "which waits if CoreDNS is not there yet"
        words = (
            "run",
            "ask",
            "--rm",
            "-i",
            "--restart=Never",
            f"--image={image_of(lab, 'agnhost')}",
            "--command",
            "--",
        )
        assert "10.9.9.9" in kubectl(lab, *words, "nslookup", "db.example.com", "10.96.0.10")


def test_storage_that_is_switched_off_goes_and_comes_back(lab: Lab) -> None:
    with edited(lab, storage={"localPath": {"enabled": False}}) as done:
        assert "local-path.apply.manifests" in done.changed
        assert kubectl(lab, "get", "storageclass", "-o", "name") == ""
        assert create(lab).changed == set()
    assert kubectl(lab, "get", "storageclass", "-o", "name").strip() == "storageclass.storage.k8s.io/local-path"
    assert verify(lab).exit_code == 0


def test_what_somebody_changed_by_hand_is_put_back(lab: Lab) -> None:
    kubectl(lab, "-n", "kube-system", "scale", "deployment", "coredns", "--replicas=1")
    kubectl(lab, "-n", "kube-flannel", "delete", "daemonset", "kube-flannel-ds")
    mended = create(lab)
    assert {"coredns.apply.manifests", "flannel.apply.manifests"} <= mended.changed
    assert kubectl(lab, "-n", "kube-system", "get", "deployment", "coredns", "-o", "jsonpath={.spec.replicas}") == "2"
    assert create(lab).changed == set()


def test_addons_come_change_and_go_with_the_file(lab: Lab, tmp_path: Path) -> None:
    manifest = tmp_path / "extra.yaml"
    manifest.write_text(MANIFEST.replace("IMAGE", image_of(lab, "agnhost")))
    addon = {"name": "extra", "manifests": [str(manifest)], "namespace": "extra", "wait": "2m"}
    with edited(lab, addons=[addon]) as done:
        assert "addons.install.extra" in done.changed
        assert kubectl(lab, "-n", "extra", "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}") == "1"
        assert create(lab).changed == set()
        manifest.write_text(manifest.read_text().replace('"one"', '"two"').replace("name: login", "name: other"))
        shown = planned(lab)
        assert "-  mode: one" in shown.replace('"', "")
        assert "geheim" not in shown
        changed = create(lab)
        assert changed.changed == {"addons.install.extra", "verify.probe.workloads"}
        assert kubectl(lab, "-n", "extra", "get", "secret", "-o", "name").split() == ["secret/other"]
        runs = (lab.cluster_file.parent / ".kubexm").rglob("*")
        assert not [path for path in runs if path.is_file() and b"geheim-geheim" in path.read_bytes()]
    assert kubectl(lab, "-n", "extra", "get", "deployment,configmap", "-l", "kubexm.io/applied", "-o", "name") == ""


def test_an_addon_that_does_not_come_up_says_why(lab: Lab, tmp_path: Path) -> None:
    manifest = tmp_path / "broken.yaml"
    manifest.write_text(MANIFEST.replace("IMAGE", "registry.invalid/nothing:1"))
    before = lab.cluster_file.read_text()
    edit(
        lab.cluster_file,
        addons=[{"name": "broken", "manifests": [str(manifest)], "namespace": "broken", "wait": "20s"}],
    )
    done = kubexm(lab.cluster_file, "create", "cluster")
    lab.cluster_file.write_text(before)
    assert done.exit_code == 1
    error = done.errors["addons.install.broken-ready", "cluster"]["message"]
    assert "Deployment broken/web" in error
    assert "pod broken/web-" in error
    assert "registry.invalid/nothing:1" in error
    create(lab)


def test_commands_of_the_user_run_once(lab: Lab) -> None:
    hook = {"name": "count", "run": "echo again >> /root/count", "on": "worker"}
    with edited(lab, system={"postInstall": [hook]}):
        create(lab)
        assert lab.run("n2", "cat", "/root/count") == "again\n"
    lab.run("n2", "rm", "/root/count")
