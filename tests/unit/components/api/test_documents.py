"""Manifests as kubectl reads them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kubexm.components.api import Ref, objects_of, yaml_documents
from kubexm.components.documents import yaml_stream
from kubexm.errors import KubexmError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("yes", True),
        ("y", True),
        ("Off", False),
        ("n", False),
        ("2026-11-16", "2026-11-16"),
        ("12:30", "12:30"),
        ("10.96.0.0", "10.96.0.0"),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("1_000", 1000),
        ("~", None),
        ("=", "="),
        ("'0644'", "0644"),
        ("'yes'", "yes"),
        ("!!str 12", "12"),
    ],
)
def test_scalars_are_what_they_are_to_go(text: str, value: object) -> None:
    [document] = yaml_documents(f"a: {text}", "x")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_keys_are_text() -> None:
    assert yaml_documents("2: a\ntrue: b\nnull: c", "x") == [{"2": "a", "true": "b", "null": "c"}]


def objects(text: str, namespace: str = "apps") -> list[dict[str, Any]]:
    return [dict(item.document) for item in objects_of(text, "extra", namespace)]


def test_each_object_gets_a_label_and_a_namespace_if_it_can_have_one() -> None:
    found = objects(
        """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, creationTimestamp: null}
---
# nothing here
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: other, labels: {x: "1"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: c, namespace: sloppy}
"""
    )
    assert [item["metadata"] for item in found] == [
        {"name": "a", "namespace": "apps", "labels": {"kubexm.io/applied": "extra"}},
        {"name": "b", "namespace": "other", "labels": {"x": "1", "kubexm.io/applied": "extra"}},
        {"name": "c", "labels": {"kubexm.io/applied": "extra"}},
    ]


def test_lists_are_opened_and_statuses_left_out() -> None:
    found = objects(
        """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}, status: {loadBalancer: {}}}
- apiVersion: v1
  kind: ConfigMapList
  items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]
"""
    )
    assert [(item["kind"], "status" in item) for item in found] == [("Service", False), ("ConfigMap", False)]


def test_plain_data_of_a_secret_is_turned_as_the_api_would() -> None:
    [secret] = objects("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: x}, data: {b: eQ==}}")
    assert "stringData" not in secret
    assert secret["data"] == {"a": base64.b64encode(b"x").decode(), "b": "eQ=="}


def test_order_and_comments_do_not_matter_to_a_digest() -> None:
    one = objects_of("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: a, y1: b}}", "e")
    two = objects_of("# hello\nkind: ConfigMap\napiVersion: v1\ndata: {y1: b, x: a}\nmetadata: {name: a}\n", "e")
    other = objects_of("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: a, y1: c}}", "e")
    assert one[0].digest == two[0].digest != other[0].digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [\nb", "line 2: this is no YAML"),
        ("a: 1\na: 2", "duplicate key"),
        ("kind: Pod", "no object of Kubernetes"),
        ("- a", "no object of Kubernetes"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: a-}}", "has no metadata.name"),
        ("{apiVersion: v1, kind: List, items: 3}", "are no list"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}",
            "twice",
        ),
    ],
)
def test_what_is_no_manifest_is_told(text: str, message: str) -> None:
    with pytest.raises(KubexmError, match=message):
        objects_of(text, "extra", "default")


def test_a_cluster_wide_object_is_found_whatever_namespace_its_manifest_names() -> None:
    wanted = Ref("example.com", "Wide", "apps", "a", "v1")
    assert wanted.means(Ref("example.com", "Wide", "", "a", "v2"))
    assert wanted.means(Ref("example.com", "Wide", "apps", "a", "v1"))
    assert not wanted.means(Ref("example.com", "Wide", "other", "a", "v1"))
    assert not wanted.means(Ref("example.org", "Wide", "apps", "a", "v1"))


def test_what_was_rendered_here_is_the_same_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    odd: dict[Any, Any] = {"t": "x\ny\n", 2: "no", "1_0": "1_0", "e": [], "deep": [{"k": [[]]}]}
    text = yaml_stream([{"a": [1, 2.0, 0.5, True, None, {}], **odd}, {"kind": "Second"}])
    quick = yaml_documents(text, "x")
    monkeypatch.setattr("kubexm.components.api.documents.rendered", lambda _: None)
    assert quick == yaml_documents(text, "x")
    assert [type(value) for value in quick[0]["a"]] == [type(value) for value in yaml_documents(text, "x")[0]["a"]]
