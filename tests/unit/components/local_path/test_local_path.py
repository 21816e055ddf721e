"""The local-path provisioner's objects; it goes when it is switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubexm import config
from kubexm.components.api import ManifestsApplied, yaml_documents
from kubexm.components.documents import yaml_stream
from kubexm.components.local_path import LocalPath
from kubexm.components.local_path.manifests import local_path_objects
from tests.unit.components.api_plan import Up, api_graph, golden
from tests.unit.components.around import cluster, context_of

GOLDEN = Path(__file__).parent / "golden"


def objects(more: str = "") -> dict[str, Any]:
    loaded = config.loads(cluster(more), name="t").cluster
    found = local_path_objects(loaded, image="provisioner:1", helper_image="busybox:1")
    return {document["kind"]: document for document in found}


def test_the_whole_of_it() -> None:
    loaded = config.loads(cluster(), name="t").cluster
    text = yaml_stream(local_path_objects(loaded, image="provisioner:1", helper_image="busybox:1"))
    golden(GOLDEN / "local-path.yaml", text)


def test_path_and_default_are_the_files() -> None:
    found = objects("storage: {localPath: {path: /data/volumes, default: false}}")
    places = json.loads(found["ConfigMap"]["data"]["config.json"])["nodePathMap"]
    assert places == [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/data/volumes"]}]
    annotations = found["StorageClass"]["metadata"]["annotations"]
    assert annotations == {"storageclass.kubernetes.io/is-default-class": "false"}
    new, old = (one["Deployment"]["spec"]["template"]["metadata"]["annotations"] for one in (found, objects()))
    assert new != old


def test_volumes_are_made_with_an_image_of_the_bundle() -> None:
    [helper] = yaml_documents(objects()["ConfigMap"]["data"]["helperPod.yaml"], "helper")
    assert helper["spec"]["containers"][0]["image"] == "busybox:1"


def test_it_runs_as_the_account_that_has_its_rights() -> None:
    found = objects()
    [subject] = found["ClusterRoleBinding"]["subjects"]
    spec = found["Deployment"]["spec"]["template"]["spec"]
    assert subject["name"] == spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    words = spec["containers"][0]["args"]
    assert words[words.index("--service-account-name") + 1] == subject["name"], "its helpers run as this one too"


def test_switched_off_it_is_taken_away(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster("storage: {localPath: {enabled: false}}"), tmp_path), Up, LocalPath)
    assert graph.nodes["local-path.apply.manifests"].step == ManifestsApplied(name="local-path")


def policies(more: str = "") -> dict[str, dict[str, Any]]:
    loaded = config.loads(cluster(more), name="t").cluster
    found = local_path_objects(loaded, image="provisioner:1", helper_image="busybox:1")
    return {
        document["spec"]["matchConstraints"]["resourceRules"][0]["resources"][0]: document
        for document in found
        if document["kind"] == "ValidatingAdmissionPolicy"
    }


def test_its_account_is_limited_to_its_scripts_and_its_directory() -> None:
    found = policies("storage: {localPath: {path: /data/volumes}}")
    account = "system:serviceaccount:local-path-storage:local-path-provisioner"
    for policy in found.values():
        assert policy["spec"]["failurePolicy"] == "Fail"
        [condition] = policy["spec"]["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{account}'"
    [mounts] = [rule for rule in found["pods"]["spec"]["validations"] if "mount only" in rule["message"]]
    assert 'startsWith("/data/volumes/")' in mounts["expression"]
    [below] = found["persistentvolumes"]["spec"]["validations"]
    assert below["message"].endswith("must be below /data/volumes")
    [image] = [rule for rule in found["pods"]["spec"]["validations"] if "own image" in rule["message"]]
    assert 'c.image == "busybox:1"' in image["expression"]


def test_every_policy_is_in_force() -> None:
    loaded = config.loads(cluster(), name="t").cluster
    found = local_path_objects(loaded, image="provisioner:1", helper_image="busybox:1")
    bound = [one["spec"] for one in found if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert [one["policyName"] for one in bound] == [one["metadata"]["name"] for one in policies().values()]
    assert all(one["validationActions"] == ["Deny"] for one in bound)


def test_helpers_have_no_token_and_running_pods_cannot_be_changed() -> None:
    [helper] = yaml_documents(objects()["ConfigMap"]["data"]["helperPod.yaml"], "helper")
    assert helper["spec"]["automountServiceAccountToken"] is False
    [rule] = objects()["Role"]["rules"]
    assert set(rule["verbs"]) == {"get", "list", "watch", "create", "delete"}
