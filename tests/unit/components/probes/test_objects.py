"""What a measurement brings into the cluster."""

from __future__ import annotations

from typing import Any

from kubexm.components.probes.objects import LABEL, api_objects, pod_objects, start_spec


def test_everything_carries_the_measurements_id() -> None:
    objects = [*api_objects("abc"), *pods()]
    assert {each["metadata"]["labels"][LABEL] for each in objects} == {"abc"}
    outside = [each["kind"] for each in objects if "namespace" not in each["metadata"]]
    assert outside == ["Namespace", "ClusterRole", "ClusterRoleBinding"]


def test_the_account_may_write_in_its_namespace_and_read_nodes_and_no_more() -> None:
    roles = {each["kind"]: each["rules"] for each in api_objects("abc") if "rules" in each}
    assert [rule["resources"] for rule in roles["Role"]] == [["configmaps"], ["pods"]]
    assert roles["ClusterRole"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]


def test_pods_hold_no_token_and_no_rights() -> None:
    specs = [each["spec"]["template"]["spec"] for each in pods() if each["kind"] in ("DaemonSet", "Deployment")]
    specs.append(start_spec("image", (), anywhere=False))
    for spec in specs:
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        (container,) = spec["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_service_has_three_replicas_a_budget_and_a_hook() -> None:
    found = {each["kind"]: each["spec"] for each in pods()}
    assert found["Deployment"]["replicas"] == 3
    assert found["PodDisruptionBudget"]["minAvailable"] == 2
    (container,) = found["Deployment"]["template"]["spec"]["containers"]
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["/kubexm-probe", "sleep", "5"]


def pods() -> list[dict[str, Any]]:
    return pod_objects("abc", image="i", program="/p", directory="/d", taints=("a=b:NoSchedule",), anywhere=True)
