"""A cluster of binaries under systemd on one lab host: it works, is hardened, and edits restart just what they must."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import Outcome, edit, kubexm
from tests.cluster.conftest import MakeLab
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]

UNITS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy")
ETCDCTL = (
    "etcdctl --cacert /etc/etcd/pki/ca.crt --cert /etc/etcd/pki/healthcheck-client.crt "
    "--key /etc/etcd/pki/healthcheck-client.key"
)


@dataclass
class Binary:
    """One host, and kubexm run on it as a user would."""

    lab: Lab
    base: str
    """The cluster file as the lab wrote it."""

    def edit(self, **kubernetes: Any) -> None:
        """Other settings under spec.kubernetes than the lab's, and only these."""
        self.lab.cluster_file.write_text(self.base)
        edit(self.lab.cluster_file, kubernetes={"type": "kubexm", **kubernetes})

    def create(self, *words: str) -> Outcome:
        return kubexm(self.lab.cluster_file, "create", "cluster", *words)

    def created(self) -> Outcome:
        """A create that must end well."""
        done = self.create()
        assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
        return done

    def sh(self, script: str) -> str:
        text = f"export KUBECONFIG=/etc/kubernetes/admin.conf; {script}"
        return self.lab.run("n1", "sh", "-c", text, timeout=120).strip()

    def invocations(self) -> dict[str, str]:
        """Which start of each unit this is."""
        return {unit: self.sh(f"systemctl show -p InvocationID --value {unit}") for unit in UNITS}

    def restarted(self, before: dict[str, str]) -> set[str]:
        return {unit for unit, invocation in self.invocations().items() if before[unit] != invocation}


@pytest.fixture(scope="module")
def binary(make_lab: MakeLab) -> Iterator[Binary]:
    """A single node, created."""
    lab = make_lab(topology="single")
    made = Binary(lab, lab.cluster_file.read_text())
    made.edit()
    made.created()
    yield made
    lab.down()


def test_the_node_is_ready_and_every_unit_is_up(binary: Binary) -> None:
    node = json.loads(binary.sh("kubectl get node n1 -o json"))
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]
    assert not node["spec"].get("taints")  # it is a worker too
    assert binary.sh(f"systemctl is-active {' '.join(UNITS)}").split() == ["active"] * len(UNITS)
    pods = binary.sh("kubectl -n kube-system get pods -o name")
    assert "coredns" in pods
    assert "kube-apiserver" not in pods
    assert "kube-proxy" not in pods


def test_objects_people_look_for_are_there(binary: Binary) -> None:
    info = binary.sh("kubectl -n kube-public get configmap cluster-info -o jsonpath='{.data.kubeconfig}'")
    assert "certificate-authority-data: " in info
    assert "server: https://lb.kubexm.local:6443" in info
    bindings = binary.sh("kubectl get clusterrolebindings -o name")
    for name in ("kubeadm:cluster-admins", "kubeadm:node-autoapprove-certificate-rotation", "system:node-proxier"):
        assert f"/{name}" in bindings


def test_it_is_hardened(binary: Binary) -> None:
    binary.sh("kubectl create secret generic hidden --from-literal=word=xyzzy")
    stored = binary.sh(f"{ETCDCTL} get /registry/secrets/default/hidden | tr -c '[:print:]' .")
    assert "k8s:enc:secretbox:v1:" in stored
    assert "xyzzy" not in stored
    audit = binary.sh("grep '\"hidden\"' /var/log/kubernetes/audit/audit.log")
    assert '"verb":"create"' in audit
    assert "xyzzy" not in audit
    binary.sh("kubectl delete secret hidden")
    assert binary.sh("curl -sk https://127.0.0.1:6443/readyz") == "ok"
    assert '"code": 401' in binary.sh("curl -sk https://127.0.0.1:6443/version")
    assert '"code": 401' in binary.sh(
        "curl -sk https://127.0.0.1:6443/api/v1/namespaces/kube-public/configmaps/cluster-info"
    )
    assert "NotFound" in binary.sh("kubectl get --raw /debug/pprof/ 2>&1 || :")
    warned = "kubectl run bad --image=x --dry-run=server --overrides="
    assert "would violate PodSecurity" in binary.sh(f'{warned}\'{{"spec": {{"hostNetwork": true}}}}\' 2>&1')
    modes = binary.sh(
        "stat -c '%a %n' /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key /etc/kubernetes/config/encryption.yaml"
    )
    assert {line.split()[0] for line in modes.splitlines()} == {"600"}


def test_the_api_reaches_kubelets_by_certificates_it_checks(binary: Binary) -> None:
    log = "kubectl -n kube-system logs -l k8s-app=kube-dns --tail=1"
    assert "CoreDNS" in binary.sh(f"{log} 2>&1") or binary.sh(f"{log} >/dev/null && echo reached") == "reached"
    client = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    assert binary.sh(f"openssl verify -CAfile /etc/kubernetes/pki/ca.crt {client}").endswith(": OK")
    assert binary.sh(f"openssl x509 -noout -subject -in {client}").endswith("O = system:nodes, CN = system:node:n1")
    assert binary.sh("ls /etc/kubernetes/bootstrap-kubelet.conf 2>&1 || :").endswith("No such file or directory")


def test_a_second_run_changes_nothing(binary: Binary) -> None:
    before = binary.invocations()
    outcome = binary.created()
    assert outcome.changed == set()
    assert binary.restarted(before) == set()


def test_an_edit_restarts_just_what_it_is_for(binary: Binary) -> None:
    before = binary.invocations()
    binary.edit(scheduler={"extraArgs": {"v": "3"}})
    preview = binary.create("--dry-run")
    assert preview.exit_code == 0
    assert [node for (node, _), diff in preview.diffs.items() if "+  --v=3" in diff] == ["binary.run.settings.n1"]
    assert binary.restarted(before) == set()
    outcome = binary.created()
    assert binary.restarted(before) == {"kube-scheduler"}
    assert {"binary.run.settings", "binary.run.scheduler"} <= outcome.changed
    assert "--v=3" in binary.sh("tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value kube-scheduler)/cmdline")

    before = binary.invocations()
    binary.edit(
        audit={"policy": {"rules": [{"level": "Request"}]}},
        kubeProxy={"config": {"conntrack": {"min": 0, "maxPerCore": 0}, "iptables": {"masqueradeAll": True}}},
    )
    changed = binary.created().changed
    assert {"binary.run.api-server", "binary.run.scheduler"} <= changed
    # A controller manager that misses the API server for long ends by itself, and begins anew.
    assert binary.restarted(before) - {"kube-controller-manager"} == {"kube-apiserver", "kube-proxy", "kube-scheduler"}
    assert binary.sh("kubectl get --raw /readyz") == "ok"


def test_a_program_that_does_not_come_up_says_why_itself(binary: Binary) -> None:
    binary.edit(apiServer={"extraArgs": {"no-such-argument": "1"}})
    outcome = binary.create()
    assert outcome.exit_code == 1
    (error,) = [error for (node, _), error in outcome.errors.items() if node.startswith("binary.run.api-server")]
    assert "unknown flag: --no-such-argument" in error["message"]
    assert "journalctl -u kube-apiserver" in error["hint"]
    binary.edit()
    binary.created()
    assert binary.sh("kubectl get --raw /readyz") == "ok"
