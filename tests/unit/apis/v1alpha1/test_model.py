"""Promises every field of the model keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from kubexm.apis.v1alpha1 import Cluster, EditKind, Model, Outside, SecretSource
from kubexm.apis.v1alpha1.base import EDIT_KEY, OUTSIDE_KEY, camel
from tests.unit.config.files import cluster, data


def _models(base: type[Model] = Model) -> Iterator[type[Model]]:
    for model in base.__subclasses__():
        if model.__module__.startswith("kubexm."):
            yield model
            yield from _models(model)


FIELDS = [(model, name, field) for model in _models() for name, field in model.model_fields.items()]


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


@pytest.mark.parametrize(
    ("model", "name", "field"), FIELDS, ids=[f"{model.__name__}.{name}" for model, name, _ in FIELDS]
)
class TestEveryField:
    def test_says_what_it_is(self, model: type[Model], name: str, field: FieldInfo) -> None:
        assert field.description
        assert field.description.endswith((".", "`.", ")."))

    def test_says_what_an_edit_does(self, model: type[Model], name: str, field: FieldInfo) -> None:
        extra = _extra(field)
        if EDIT_KEY not in extra:
            assert "Model" in str(field.annotation) or any(part.__name__ in str(field.annotation) for part in _models())
            return
        assert EditKind(extra[EDIT_KEY]) in {EditKind.LIVE, EditKind.UPGRADE, EditKind.FIXED}

    def test_secrets_are_outside_the_guard(self, model: type[Model], name: str, field: FieldInfo) -> None:
        if SecretSource.__name__ in str(field.annotation):
            assert _extra(field)[OUTSIDE_KEY] == Outside.SECRET

    def test_has_a_camel_case_key(self, model: type[Model], name: str, field: FieldInfo) -> None:
        assert field.alias
        assert "_" not in field.alias
        assert field.alias[0].islower()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("pod_cidr", "podCIDR"),
        ("cert_sans", "certSANs"),
        ("min_cpu", "minCPU"),
        ("dns_domain", "dnsDomain"),
        ("mtu", "mtu"),
    ],
)
def test_keys(name: str, key: str) -> None:
    assert camel(name) == key


def test_files_use_camel_case_only() -> None:
    wrong = data()
    wrong["spec"]["role_groups"] = wrong["spec"].pop("roleGroups")
    with pytest.raises(ValidationError):
        Cluster.model_validate(wrong, by_alias=True, by_name=False)


def test_a_cluster_cannot_be_changed() -> None:
    made = cluster()
    with pytest.raises(ValidationError):
        made.spec.kubernetes.type = "kubexm"
    assert made.hosts is made.hosts, "hosts are expanded once"


def test_defaults_are_not_shared() -> None:
    one, other = cluster(), cluster()
    one.spec.kubernetes.kubelet.config["maxPods"] = 1
    assert other.spec.kubernetes.kubelet.config == {}
    assert cluster().spec.kubernetes.kubelet.config == {}


def test_what_is_dumped_can_be_read_again() -> None:
    made = cluster({"preflight": {"minMemory": "1500Mi"}, "network": {"podCIDR": "10.1.0.0/16,fd00::/56"}})
    assert Cluster.model_validate(made.model_dump(mode="json"), by_alias=True, by_name=False) == made


def test_an_empty_section_has_its_defaults() -> None:
    empty = data()
    empty["spec"] |= {"dns": None, "network": None, "system": {"packages": None, "sysctl": None}}
    assert Cluster.model_validate(empty, by_alias=True, by_name=False) == cluster()
