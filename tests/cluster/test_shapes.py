"""Clusters of other shapes than the usual one, and clusters whose shape is edited: grown, shrunk, entered elsewhere."""

from __future__ import annotations

import pytest
from cryptography import x509

from tests.cluster.commands import (
    assert_nothing_to_do,
    create,
    edit,
    kubectl,
    nodes_seen_from_here,
    ready_nodes,
)
from tests.cluster.conftest import MakeLab
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]


def test_etcd_on_hosts_of_its_own(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(hosts=5)
    edit(lab.cluster_file, roleGroups={"etcd": ["n1", "n2", "n3"], "controlPlane": ["n4"], "worker": ["n5"]})
    create(lab)
    assert ready_nodes(lab, "n4") == {"n4", "n5"}
    assert lab.run("n1", "sh", "-c", "command -v kubelet || echo none").strip() == "none"
    assert_nothing_to_do(lab)


def test_a_host_added_to_the_file_joins_and_one_taken_out_is_left_alone(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+2")
    whole = lab.cluster_file.read_text()
    groups = {"etcd": ["n1"], "controlPlane": ["n1"], "worker": ["n2"]}
    edit(lab.cluster_file, roleGroups=groups)
    create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}
    lab.cluster_file.write_text(whole)
    joined = create(lab)
    assert ready_nodes(lab) == {"n1", "n2", "n3"}
    touched = {host for (node, host), state in joined.states.items() if state == "succeeded" and "verify" not in node}
    assert "n2" not in touched

    def runs_there() -> str:
        files = ("/var/lib/kubexm/cluster.json", "/etc/hosts", "/etc/kubernetes/kubelet.yaml")
        units = lab.run("n3", "systemctl", "show", "-p", "InvocationID", "kubelet", "containerd", "kubexm-haproxy")
        return units + lab.run("n3", "cat", *files)

    before = runs_there()
    two = [{"name": host.name, "address": str(host.address)} for host in lab.hosts[:2]]
    edit(lab.cluster_file, hosts=two, roleGroups=groups)
    left = create(lab)
    assert "n3 (worker) is gone from the file: it stays in the cluster, untouched" in left.stderr
    assert "n3" not in {host for _, host in left.states}
    assert runs_there() == before
    assert ready_nodes(lab) == {"n1", "n2", "n3"}
    assert_nothing_to_do(lab)


@pytest.mark.parametrize("etcd", ["kubexm", "kubeadm"])
def test_a_control_plane_added_to_the_file_joins_and_all_know_it(fresh_lab: MakeLab, etcd: str) -> None:
    lab = fresh_lab(hosts=3)
    groups = {"etcd": ["n1"], "controlPlane": ["n1"], "worker": ["n2"]}
    edit(lab.cluster_file, roleGroups=groups, etcd={"type": etcd})
    create(lab)
    assert ready_nodes(lab) == {"n1", "n2"}
    members = ["n1", "n3"] if etcd == "kubeadm" else ["n1"]
    edit(lab.cluster_file, roleGroups={"etcd": members, "controlPlane": ["n1", "n3"]})
    create(lab)
    assert ready_nodes(lab, "n3") == {"n1", "n2", "n3"}
    added = lab.host("n3").address
    for host in ("n1", "n3"):
        pem = lab.run(host, "cat", "/etc/kubernetes/pki/apiserver.crt")
        found = x509.load_pem_x509_certificate(pem.encode()).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        assert added in names.get_values_for_type(x509.IPAddress), host
    assert_nothing_to_do(lab)

    # The worker's balancer goes to the new one when the first is away.
    lab.run("n1", "mv", "/etc/kubernetes/manifests/kube-apiserver.yaml", "/root")
    asked = "curl -sk --max-time 5 https://127.0.0.1:6443/livez"
    lab.run("n1", f"for i in $(seq 90); do if ! {asked}; then exit 0; fi; sleep 1; done; exit 1", timeout=300)
    lab.run(
        "n2", f'for i in $(seq 20); do if [ "$({asked})" = ok ]; then exit 0; fi; sleep 1; done; exit 1', timeout=200
    )
    assert "n2" in ready_nodes(lab, "n3")


def test_a_host_of_its_own_is_the_entrance_from_outside(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(hosts=3)
    groups = {"etcd": ["n1"], "controlPlane": ["n1"], "worker": ["n2"], "loadbalancer": ["n3"]}
    edit(lab.cluster_file, roleGroups=groups)
    create(lab)
    assert nodes_seen_from_here(lab) == (str(lab.host("n3").address), {"n1", "n2"})
    assert lab.run("n3", "sh", "-c", "command -v kubelet || echo none").strip() == "none"
    assert_nothing_to_do(lab)


def test_without_a_network_plugin_nodes_join_and_the_rest_is_said_to_be_the_users(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+1")
    edit(lab.cluster_file, network={"plugin": "none"})
    done = create(lab)
    assert ready_nodes(lab) == set()
    found = kubectl(lab, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert sorted(found) == ["n1", "n2"]
    [told] = done.warnings["verify.state.nodes", "cluster"]
    assert "left to you: a network plugin" in told
    assert "kube-flannel" not in kubectl(lab, "get", "namespaces", "-o", "name")
    assert_nothing_to_do(lab)
