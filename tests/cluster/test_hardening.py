"""How the usual cluster (kubeadm, etcd under systemd) is hardened, what the file adds, and that it can be taken off."""

from __future__ import annotations

import base64
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


def check_reads_that_show_secrets_are_audited(lab: Lab) -> None:
    kubectl(lab, "get", "secret", "hidden")
    assert '"verb":"get"' in audited(lab, "hidden")
    kubectl(lab, "-n", "kube-system", "logs", "kube-scheduler-n1", "--tail=1")
    kubectl(lab, "-n", "kube-flannel", "exec", "daemonset/kube-flannel-ds", "-c", "kube-flannel", "--", "true")
    found = {
        (entry["verb"], ref["resource"], ref.get("subresource", ""))
        for entry in map(json.loads, sh(lab, f"cat {AUDIT}").splitlines())
        if (ref := entry.get("objectRef")) and entry["user"]["username"] == "kubernetes-admin"
    }
    assert ("get", "pods", "log") in found
    assert {"create", "get"} & {verb for verb, resource, part in found if (resource, part) == ("pods", "exec")}
    assert ("list", "nodes", "") not in found, "other reads are not worth their place"


def check_what_the_api_refuses(lab: Lab) -> None:
    access = "kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /tmp/kubectl"
    service = json.dumps({"spec": {"externalIPs": ["192.0.2.7"]}})
    sh(lab, f"{access} create service clusterip out --tcp=80")
    assert "denied by admission control" in sh(lab, f"{access} patch service out -p '{service}' 2>&1 || :")
    sh(lab, f"{access} delete service out")
    token = sh(lab, f"{access} create token default --duration=87600h").splitlines()[-1]
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600, "not ten years"

    account = "system:serviceaccount:local-path-storage:local-path-provisioner"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "taken", "namespace": "local-path-storage"},
        "spec": {
            "containers": [{"name": "a", "image": "x", "securityContext": {"privileged": True}}],
            "volumes": [{"name": "all", "hostPath": {"path": "/"}}],
        },
    }
    script = f"echo '{json.dumps(pod)}' | {access} --as={account} create --dry-run=server -f - 2>&1 || :"
    assert "pods of local-path-provisioner may" in sh(lab, script)
    assert "created" not in sh(lab, script)


def check_files_and_suites(lab: Lab) -> None:
    files = "/etc/systemd/system/kubelet.service /etc/cni/net.d/10-flannel.conflist"
    assert sh(lab, f"stat -c %a {files}").split() == ["600", "600"]
    pki = "/etc/etcd/pki"
    ask = (
        f"openssl s_client -connect 127.0.0.1:2379 -cert {pki}/healthcheck-client.crt -key {pki}/healthcheck-client.key"
    )
    weak = sh(lab, f"echo | {ask} -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA 2>&1 || :")
    assert "handshake failure" in weak
    strong = sh(lab, f"echo | {ask} -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 2>&1 || :")
    assert "Cipher is ECDHE-ECDSA-AES128-GCM-SHA256" in strong


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

    check_reads_that_show_secrets_are_audited(lab)
    check_what_the_api_refuses(lab)
    check_files_and_suites(lab)

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
