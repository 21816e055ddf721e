"""A control plane of static pods, etcd's among them: killed half way, hardened, changed pod by pod."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import create, edit, killed, kubectl, kubexm, started_kubexm
from tests.cluster.marks import BUNDLE, LONG, PATIENT

MakeLab = Callable[..., Lab]
PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

pytestmark = [LONG, PATIENT, BUNDLE]


def sh(lab: Lab, script: str, host: str = "n1") -> str:
    return lab.run(host, "sh", "-c", script, timeout=180).strip()


def pods(lab: Lab, host: str = "n1") -> dict[str, str]:
    """Which sandbox each static pod runs in now."""
    label = "--label tier=control-plane --state ready -o json"
    found = json.loads(sh(lab, f"crictl pods {label}", host))["items"]
    return {item["metadata"]["name"].removesuffix(f"-{host}"): item["id"] for item in found}


def restarted(lab: Lab, before: dict[str, str], host: str = "n1") -> set[str]:
    now = pods(lab, host)
    return {name for name in before if now.get(name) != before[name]}


def voters(lab: Lab) -> set[str]:
    """Who votes in etcd, by name, as a member knows."""
    pki = "/etc/kubernetes/pki/etcd"
    access = f"--cacert {pki}/ca.crt --cert {pki}/healthcheck-client.crt --key {pki}/healthcheck-client.key"
    listed = sh(lab, f"crictl exec $(crictl ps --name '^etcd$' -q) etcdctl {access} member list -w json", "n2")
    found = json.loads(listed)["members"]
    return {member["name"] for member in found if not member.get("isLearner")}


@pytest.fixture
def trio(make_lab: MakeLab) -> Iterator[Lab]:
    """Three control planes that are workers too."""
    lab = make_lab(topology="3+0")
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def single(make_lab: MakeLab) -> Iterator[Lab]:
    """One node, whose kubexm was killed while its static pods came up, and then went on."""
    lab = make_lab(topology="single")
    edit(lab.cluster_file, etcd={"type": "kubeadm"})
    killed(started_kubexm(lab.cluster_file, "create", "cluster", until="kubeadm.prepare.kubelet-certified"))
    killed(started_kubexm(lab.cluster_file, "runs", "resume", "last", until="kubeadm.run.api"))
    done = kubexm(lab.cluster_file, "runs", "resume", "last")
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    yield lab
    lab.down()


def test_a_stacked_etcd_is_formed_changed_and_loses_data_of_a_member(trio: Lab) -> None:
    lab = trio
    edit(lab.cluster_file, etcd={"type": "kubeadm"})
    create(lab)
    assert create(lab).result["changed"] is False
    assert voters(lab) == {"n1", "n2", "n3"}
    kubectl(lab, "create", "configmap", "kept", "--from-literal=word=still-here")

    # Changed one at a time, just etcd and the API server that waits for it: the API answers by another one meanwhile.
    before = {host: pods(lab, host) for host in ("n1", "n2", "n3")}
    edit(lab.cluster_file, etcd={"tuning": {"snapshotCount": 12000}})
    changed = create(lab)
    assert "kubeadm.run.etcd" in changed.changed
    for host, ran in before.items():
        assert restarted(lab, ran, host) == {"etcd", "kube-apiserver"}, host
        assert "--snapshot-count=12000" in sh(lab, "cat /etc/kubernetes/manifests/etcd.yaml", host)

    # A member that lost its data does not begin anew by itself, and is let in again by the others.
    sh(lab, "systemctl stop kubelet; crictl stop $(crictl ps --name etcd -q); rm -rf /var/lib/etcd/member", "n3")
    sh(lab, "systemctl start kubelet; sleep 20", "n3")
    assert sh(lab, "crictl ps --name '^etcd$' -q", "n3") == "", "an empty member does not come up"
    create(lab)
    assert voters(lab) == {"n1", "n2", "n3"}

    assert kubectl(lab, "get", "configmap", "kept", "-o", "jsonpath={.data.word}") == "still-here"
    again = create(lab)
    assert again.result["changed"] is False, again.changed

    # The one that is left of three is up and has no quorum: each is named, by its own host.
    assert kubexm(lab.cluster_file, "verify", "--no-probe").exit_code == 0
    manifest, gone = "/etc/kubernetes/manifests/etcd.yaml", "[ -z \"$(crictl ps --name '^etcd$' -q)\" ]"
    for host in ("n2", "n3"):
        sh(lab, f"mv {manifest} /root/etcd.yaml; for i in $(seq 60); do if {gone}; then exit; fi; sleep 1; done", host)
    done = kubexm(lab.cluster_file, "verify", "--no-probe")
    for host in ("n2", "n3"):
        sh(lab, f"mv /root/etcd.yaml {manifest}", host)
    assert done.exit_code == 1
    for host in ("n1", "n2", "n3"):
        error = done.errors["verify.state.etcd", host]
        assert f"etcd on {host} has no quorum or does not answer" in error["message"]
        assert "crictl logs" in error["hint"]
    # Kubelets that were without an API for so long ask again for their pods only after a minute or two.
    until = time.monotonic() + 300
    while (done := kubexm(lab.cluster_file, "verify")).exit_code and time.monotonic() < until:
        time.sleep(5)
    assert done.exit_code == 0, done.errors


def test_a_run_that_was_killed_twice_ended_with_a_node_that_is_ready(single: Lab) -> None:
    node = json.loads(kubectl(single, "get", "node", "n1", "-o", "json"))
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
    assert "taints" not in node["spec"], "it is a worker too"
    assert sorted(pods(single)) == sorted(PODS)
    assert "kubernetesVersion: v1.34" in kubectl(
        single, "-n", "kube-system", "get", "cm", "kubeadm-config", "-o", "yaml"
    )
    before = pods(single), sh(single, "systemctl show -p InvocationID --value kubelet")
    assert create(single).result["changed"] is False
    assert (pods(single), sh(single, "systemctl show -p InvocationID --value kubelet")) == before


def test_kubelet_and_api_server_trust_only_whom_they_should(single: Lab) -> None:
    assert sh(single, "curl -sk https://127.0.0.1:6443/readyz") == "ok"
    assert '"code": 401' in sh(single, "curl -sk https://127.0.0.1:6443/version")
    assert sh(single, "curl -sk https://127.0.0.1:10250/pods") == "Unauthorized"
    assert sh(single, "curl -s --max-time 3 http://127.0.0.1:10255/pods || echo closed") == "closed"
    address = single.hosts[0].address
    served = sh(single, f"curl -s --cacert /etc/kubernetes/pki/ca.crt https://{address}:10250/pods")
    assert served == "Unauthorized", "its certificate is the cluster's own"
    secrets = "/etc/kubernetes/*.conf /etc/kubernetes/pki/*.key /etc/kubernetes/config/encryption.yaml"
    more = "/etc/kubernetes/manifests/* /etc/kubernetes/kube*.yaml /var/lib/kubelet/pki/*.[kp]e[ym]"
    assert set(sh(single, f"stat -L -c %a {secrets} {more}").split()) == {"600"}
    assert sh(single, "ls /etc/kubernetes/bootstrap-kubelet.conf 2>/dev/null || echo none") == "none"
    link = sh(single, "readlink /var/lib/kubelet/pki/kubelet-client-current.pem")
    assert link.startswith("/var/lib/kubelet/pki/kubelet-client-20"), "the kubelet can renew it"


def test_an_edit_changes_just_the_pod_it_is_for(single: Lab) -> None:
    before = pods(single)
    edit(single.cluster_file, kubernetes={"scheduler": {"config": {"parallelism": 8}}})
    create(single)
    assert restarted(single, before) == {"kube-scheduler"}

    before = pods(single)
    policy = {"rules": [{"level": "Request", "verbs": ["delete"]}, {"level": "Metadata"}]}
    edit(single.cluster_file, kubernetes={"audit": {"policy": policy}})
    create(single)
    assert restarted(single, before) == {"kube-apiserver"}, "a file it reads at start is part of it"

    before, kubelet = pods(single), sh(single, "systemctl show -p InvocationID --value kubelet")
    edit(single.cluster_file, kubernetes={"kubelet": {"config": {"maxPods": 120}}})
    create(single)
    assert restarted(single, before) == set()
    assert sh(single, "systemctl show -p InvocationID --value kubelet") != kubelet
    capacity = json.loads(kubectl(single, "get", "node", "n1", "-o", "json"))["status"]["capacity"]
    assert capacity["pods"] == "120"


def test_what_was_edited_by_hand_is_put_back(single: Lab) -> None:
    file = "/etc/kubernetes/manifests/kube-scheduler.yaml"
    written = sh(single, f"cat {file}")
    sh(single, f"sed -i 's/--bind-address=127.0.0.1/--bind-address=0.0.0.0/' {file}")
    done = create(single)
    assert "kubeadm.run.controller-manifests" in done.changed
    assert sh(single, f"cat {file}") == written
    assert "0.0.0.0" not in sh(single, "tr '\\0' ' ' </proc/$(pgrep -o kube-scheduler)/cmdline")


def test_a_pod_that_does_not_come_up_shows_its_own_last_words(single: Lab) -> None:
    edit(single.cluster_file, kubernetes={"controllerManager": {"extraArgs": {"no-such-flag": "1"}}})
    done = kubexm(single.cluster_file, "create", "cluster")
    assert done.exit_code == 1
    (error,) = done.errors.values()
    assert "kube-controller-manager did not come up" in error["message"]
    assert "unknown flag: --no-such-flag" in error["message"]
    assert "crictl logs" in error["hint"]
    edit(single.cluster_file, kubernetes={"controllerManager": {"extraArgs": {}}})
    create(single)
    assert kubectl(single, "get", "--raw", "/readyz") == "ok"

    edit(single.cluster_file, etcd={"extraArgs": {"no-such-flag": "1"}})
    done = kubexm(single.cluster_file, "create", "cluster")
    assert done.exit_code == 1
    (error,) = done.errors.values()
    assert "etcd did not come up" in error["message"]
    assert "flag provided but not defined: -no-such-flag" in error["message"]
    edit(single.cluster_file, etcd={"extraArgs": {}})
    create(single)
    assert kubectl(single, "get", "--raw", "/readyz") == "ok"


def test_a_node_without_callers_of_no_identity_stays_up(single: Lab) -> None:
    edit(single.cluster_file, kubernetes={"apiServer": {"anonymousAccess": "none"}})
    create(single)
    assert '"code": 401' in sh(single, "curl -sk https://127.0.0.1:6443/readyz")
    # Long enough for probes to have had their say, were they refused.
    before = pods(single)
    sh(single, "sleep 30")
    assert restarted(single, before) == set()
    assert sh(single, "crictl ps --name kube-apiserver -o json | grep '\"attempt\"' | tr -d ' ,'") == '"attempt":0'
    edit(single.cluster_file, kubernetes={"apiServer": {"anonymousAccess": "health"}})
    create(single)
