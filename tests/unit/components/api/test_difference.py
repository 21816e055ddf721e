"""What applying would change, shown as a diff."""

from __future__ import annotations

from typing import Any

from kubexm.components.api.difference import changes_of, removal_of
from kubexm.components.api.documents import ManifestObject, Ref, objects_of


def wanted(text: str) -> ManifestObject:
    return objects_of(text, "extra")[0]


def live(document: dict[str, Any], owned: dict[str, Any]) -> dict[str, Any]:
    managed = [{"manager": "kubexm", "operation": "Apply", "fieldsV1": owned}]
    return {**document, "metadata": {**document["metadata"], "managedFields": managed}}


def changed_lines(diff: str) -> list[str]:
    return [line for line in diff.splitlines()[2:] if line[0] in "+-"]


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: default}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - {name: a, image: "new:1", ports: [{containerPort: 80}]}
"""


def test_an_object_that_is_not_there_is_all_new() -> None:
    diff = changes_of(wanted(DEPLOYMENT), None)
    assert diff.startswith("--- /dev/null\n+++ Deployment default/d\n")
    assert "+  replicas: 2" in diff


def test_only_what_kubexm_has_a_say_in_is_shown() -> None:
    container = {
        "name": "a",
        "image": "old:1",
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }
    sidecar = {"name": "injected", "image": "mesh:1"}
    found = live(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "d",
                "namespace": "default",
                "uid": "1",
                "labels": {"kubexm.io/applied": "extra", "theirs": "x"},
                "annotations": {"gone": "soon"},
            },
            "spec": {"replicas": 5, "paused": False, "template": {"spec": {"containers": [container, sidecar]}}},
            "status": {"replicas": 5},
        },
        {
            "f:metadata": {"f:labels": {"f:kubexm.io/applied": {}}, "f:annotations": {"f:gone": {}}},
            "f:spec": {
                "f:template": {
                    "f:spec": {
                        "f:containers": {
                            'k:{"name":"a"}': {
                                ".": {},
                                "f:name": {},
                                "f:image": {},
                                "f:ports": {
                                    'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
                                },
                            }
                        }
                    }
                }
            },
        },
    )
    assert changed_lines(changes_of(wanted(DEPLOYMENT), found)) == [
        "-  annotations:",
        "-    gone: soon",
        "-  replicas: 5",
        "+  replicas: 2",
        '-        image: "old:1"'.replace('"', ""),
        "+        image: new:1",
    ]


def test_secrets_are_hidden() -> None:
    secret = wanted("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: geheim}}")
    diff = changes_of(
        secret,
        live(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"old": "YQ=="}},
            {"f:data": {"f:old": {}}},
        ),
    )
    assert "geheim" not in diff
    assert "Z2VoZWlt" not in diff
    assert "YQ==" not in diff
    assert '-  old: "(hidden)"' in diff


def test_values_of_a_set_are_shown_if_they_are_ours() -> None:
    item = wanted("{apiVersion: v1, kind: X, metadata: {name: s, finalizers: [b]}}")
    now = live(
        {"apiVersion": "v1", "kind": "X", "metadata": {"name": "s", "finalizers": ["a", "b", "theirs"]}},
        {"f:metadata": {"f:finalizers": {'v:"a"': {}}}},
    )
    assert "-  - a" in changes_of(item, now)
    assert "theirs" not in changes_of(item, now)


def test_a_removal_says_so() -> None:
    assert removal_of(Ref("", "ConfigMap", "apps", "a", "v1")).splitlines()[:2] == [
        "--- ConfigMap apps/a (now)",
        "+++ /dev/null",
    ]
