"""How the usual cluster (kubeadm, etcd under systemd) is hardened, what the file adds, and that it can be taken off."""

from __future__ import annotations

import json

from kubexm.lab import Lab
from tests.cluster.commands import assert_nothing_to_do, create, edit, kubectl
from tests.cluster.conftest import MakeLab
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
AUDIT = "/var/log/kubernetes/audit/audit.log"


def sh(lab: Lab, script: str) -> str:
    return lab.run("n1", "sh", "-c", script, timeout=120).strip()


def told(lab: Lab, program: str) -> str:
    """The arguments it runs with."""
    return sh(lab, f"tr '\\0' ' ' </proc/$(pgrep -o -x {program[:15]})/cmdline")


def stored(lab: Lab, secret: str) -> str:
    """A secret as it lies in etcd."""
    pki = "/etc/etcd/pki"
    access = f"--cacert {pki}/ca.crt --cert {pki}/healthcheck-client.crt --key {pki}/healthcheck-client.key"
    return sh(lab, f"etcdctl {access} get /registry/secrets/default/{secret} | tr -c '[:print:]' .")


def audited(lab: Lab, name: str) -> str:
    return sh(lab, f"grep '\"{name}\"' {AUDIT} || :")


def privileged_pod(lab: Lab) -> str:
    """What somebody hears who would run a pod in the host's network."""
    pod = json.dumps({"spec": {"hostNetwork": True}})
    access = "--kubeconfig /etc/kubernetes/admin.conf --cache-dir /tmp/kubectl"
    return sh(lab, f"kubectl {access} run bad --image=x --dry-run=server --overrides='{pod}' 2>&1 || :")


def test_hardening_and_what_the_file_says_reach_every_program_and_can_be_taken_off(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="single")
    edit(
        lab.cluster_file,
        kubernetes={
            "featureGates": {"AllAlpha": False},
            "apiServer": {"patch": {"metadata": {"annotations": {"example.com/mine": "yes"}}}},
            "scheduler": {"extraArgs": {"v": "3"}},
        },
    )
    create(lab)
    kubectl(lab, "create", "secret", "generic", "hidden", "--from-literal=word=xyzzy")
    assert "k8s:enc:secretbox:v1:" in stored(lab, "hidden")
    assert "xyzzy" not in stored(lab, "hidden")
    assert '"verb":"create"' in audited(lab, "hidden")
    assert "xyzzy" not in audited(lab, "hidden")
    assert "would violate PodSecurity" in privileged_pod(lab)
    assert "pod/bad created" in privileged_pod(lab), "warned, not refused"

    for program in PROGRAMS:
        assert "--feature-gates=AllAlpha=false" in told(lab, program), program
    kubelet = json.loads(kubectl(lab, "get", "--raw", "/api/v1/nodes/n1/proxy/configz"))["kubeletconfig"]
    assert kubelet["featureGates"]["AllAlpha"] is False
    assert "--v=3" in told(lab, "kube-scheduler")
    pod = json.loads(kubectl(lab, "-n", "kube-system", "get", "pod", "kube-apiserver-n1", "-o", "json"))
    assert pod["metadata"]["annotations"]["example.com/mine"] == "yes"

    edit(
        lab.cluster_file,
        kubernetes={
            "audit": {"enabled": False},
            "secretsEncryption": {"enabled": False},
            "podSecurity": {"enforce": "baseline"},
        },
    )
    create(lab)
    kubectl(lab, "create", "secret", "generic", "uncovered", "--from-literal=word=plugh")
    assert "plugh" in stored(lab, "uncovered")
    word = kubectl(lab, "get", "secret", "hidden", "-o", "jsonpath={.data.word}")
    assert word == "eHl6enk=", "what was encrypted stays readable"
    assert "--audit-log-path" not in told(lab, "kube-apiserver")
    assert audited(lab, "uncovered") == ""
    assert "violates PodSecurity" in privileged_pod(lab)
    assert "created" not in privileged_pod(lab)
    assert_nothing_to_do(lab)
