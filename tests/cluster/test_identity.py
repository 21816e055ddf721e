"""A cluster is formed once: with all of its control planes or not at all, who comes bare later joins those there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import create, edit, kubectl, kubexm
from tests.cluster.marks import BUNDLE, LONG, PATIENT

MakeLab = Callable[..., Lab]
MARK = "/var/lib/kubexm/cluster.json"

pytestmark = [LONG, PATIENT, BUNDLE]


@pytest.fixture
def trio(make_lab: MakeLab) -> Iterator[Lab]:
    """Three control planes that are workers too."""
    lab = make_lab(topology="3+0")
    yield lab
    lab.down()


def mark(lab: Lab, host: str) -> str:
    return lab.run(host, "sh", "-c", f"cat {MARK} 2>/dev/null || echo none").strip()


def voters(lab: Lab, *, stacked: bool) -> set[str]:
    """Who votes in etcd, as n2 knows."""
    pki = "/etc/kubernetes/pki/etcd" if stacked else "/etc/etcd/pki"
    access = f"--cacert {pki}/ca.crt --cert {pki}/healthcheck-client.crt --key {pki}/healthcheck-client.key"
    inside = "crictl exec $(crictl ps --name '^etcd$' -q) " if stacked else ""
    members = json.loads(lab.run("n2", "sh", "-c", f"{inside}etcdctl {access} member list -w json"))["members"]
    return {member["name"] for member in members if not member.get("isLearner")}


def made_bare(lab: Lab, host: str, directory: Path) -> None:
    """Gives one host back, as if it were a cluster of its own: what an installer would leave, but for its keys."""
    file = directory / "cluster.yaml"
    file.write_text(lab.cluster_file.read_text())
    alone = [{"name": host, "address": str(lab.host(host).address)}]
    edit(file, hosts=alone, roleGroups={role: [host] for role in ("etcd", "controlPlane", "worker")})
    done = kubexm(file, "delete", "cluster", "--yes")
    assert done.exit_code == 0, (done.stderr, done.errors)
    assert mark(lab, host) == "none"


def test_no_cluster_is_formed_without_all_of_its_control_planes(trio: Lab) -> None:
    trio.cut("n2")
    done = kubexm(trio.cluster_file, "create", "cluster")
    trio.heal("n2")
    assert done.exit_code == 3, done.stderr
    assert "n2" in done.stderr
    assert [mark(trio, host.name) for host in trio.hosts] == ["none"] * 3


@pytest.mark.parametrize(
    ("kind", "etcd"),
    [("kubeadm", "kubeadm"), ("kubeadm", "kubexm"), ("kubexm", "kubexm")],
    ids=["kubeadm-stacked", "kubeadm", "binary"],
)
def test_a_reinstalled_control_plane_joins_the_survivors(trio: Lab, kind: str, etcd: str, tmp_path: Path) -> None:
    edit(trio.cluster_file, kubernetes={"type": kind}, etcd={"type": etcd})
    create(trio)
    kubectl(trio, "create", "configmap", "kept", "--from-literal=word=still-here")
    uid = json.loads(mark(trio, "n2"))["uid"]

    # The first of all comes back bare, and this machine has lost what it knew: the survivors tell.
    made_bare(trio, "n1", tmp_path)
    shutil.rmtree(trio.cluster_file.parent / ".kubexm")
    done = create(trio)
    assert not {name for name in done.changed if name.startswith("etcd.form")}
    assert voters(trio, stacked=etcd == "kubeadm") == {"n1", "n2", "n3"}
    assert json.loads(mark(trio, "n1"))["uid"] == uid
    assert kubectl(trio, "get", "configmap", "kept", "-o", "jsonpath={.data.word}") == "still-here"
    assert create(trio).result["changed"] is False
