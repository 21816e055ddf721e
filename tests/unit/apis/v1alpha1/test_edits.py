from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import EditKind, digest, edits, guarded, recorded
from kubexm.redact import MASK
from tests.unit.config.files import cluster

CP = {"name": "cp[1:3]", "address": "10.0.0.[11:13]"}
OLD = {"kubernetes": {"version": "1.34.4"}}
W = {"name": "w[01:03]", "address": "10.0.0.[21:23]"}


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any, str]]:
    return [(edit.path, edit.old, edit.new, edit.kind.value) for edit in edits(cluster(old), cluster(new))]


def test_no_edit() -> None:
    assert edits(cluster(), cluster()) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            {},
            {"network": {"podCIDR": "10.1.0.0/16"}},
            ("spec.network.podCIDR", "10.244.0.0/16", "10.1.0.0/16", "fixed"),
        ),
        ({}, {"kubernetes": {"type": "kubexm"}}, ("spec.kubernetes.type", "kubeadm", "kubexm", "fixed")),
        (OLD, {"kubernetes": {"version": "1.35.1"}}, ("spec.kubernetes.version", "v1.34.4", "v1.35.1", "upgrade")),
        (OLD, {"kubernetes": {"version": "1.34.1"}}, ("spec.kubernetes.version", "v1.34.4", "v1.34.1", "fixed")),
        (
            {},
            {"kubernetes": {"apiServer": {"extraArgs": {"v": 2}}}},
            ("spec.kubernetes.apiServer.extraArgs", {}, {"v": "2"}, "live"),
        ),
        ({}, {"system": {"sysctl": {"vm.swappiness": 0}}}, ("spec.system.sysctl", {}, {"vm.swappiness": "0"}, "live")),
        (
            {"global": {"password": "one"}},
            {"global": {"password": "two"}},
            ("spec.global.password", MASK, MASK, "live"),
        ),
        (
            {"global": {"password": "one"}},
            {"global": {"password": "env:PW"}},
            ("spec.global.password", MASK, "env:PW", "live"),
        ),
        ({}, {"hosts": [CP, {**W, "labels": {"a": "b"}}]}, ("spec.hosts[w01].labels", {}, {"a": "b"}, "live")),
    ],
)
def test_what_each_edit_is(old: dict[str, Any], new: dict[str, Any], expected: tuple[str, Any, Any, str]) -> None:
    assert difference(old, new)[0] == expected


def test_of_an_upgrade_it_is_said_that_there_is_none() -> None:
    (edit,) = edits(cluster(OLD), cluster({"kubernetes": {"version": "1.35.0"}}))
    assert edit.kind is EditKind.UPGRADE
    assert edit.note == "this version of kubexm cannot upgrade a cluster"


def test_an_added_host_joins_and_a_removed_one_is_reported() -> None:
    new = {"hosts": [CP, {"name": "w[01:02]", "address": "10.0.0.[21:22]"}, {"name": "x", "address": "10.0.0.31"}]}
    new["roleGroups"] = {"worker": ["w[01:02]", "x"]}  # type: ignore[assignment]
    assert difference({}, new) == [
        ("spec.hosts[x]", None, ["worker"], "added"),
        ("spec.hosts[w03]", ["worker"], None, "removed"),
    ]


def test_roles_of_hosts_that_stay() -> None:
    assert difference({}, {"roleGroups": {"worker": ["w[01:02]", "cp1"]}}) == [
        ("spec.roleGroups.worker", None, "cp1", "added"),
        ("spec.roleGroups.worker", "w03", None, "removed"),
    ]


def test_another_way_of_writing_the_same_is_no_edit() -> None:
    hosts = [{"name": f"cp{number}", "address": f"10.0.0.1{number}"} for number in (1, 2, 3)]
    spelled = {
        "hosts": [*hosts, W],
        "roleGroups": {"etcd": ["group:controlPlane"], "controlPlane": ["cp1", "cp2", "cp3"]},
    }
    assert difference({}, spelled) == []
    assert digest(cluster(spelled)) == digest(cluster())


def test_a_host_that_moves_is_refused() -> None:
    found = difference({}, {"hosts": [{"name": "cp[1:3]", "address": "10.0.0.[12:14]"}, W]})
    assert found[0] == ("spec.hosts[cp1].address", "10.0.0.11", "10.0.0.12", "fixed")
    assert [kind for *_, kind in found] == ["fixed"] * 3


def test_another_way_to_the_same_host_is_live() -> None:
    moved = {"name": "cp[1:3]", "address": "10.8.0.[11:13]", "internalAddress": "10.0.0.[11:13]"}
    found = difference({}, {"hosts": [moved, W]})
    assert found[0] == ("spec.hosts[cp1].address", "10.0.0.11", "10.8.0.11", "live")
    assert {kind for *_, kind in found} == {"live"}


OUTSIDE: list[dict[str, Any]] = [
    {"global": {"user": "ops", "port": 2222, "connectionTimeout": "1m", "agent": True, "workDir": "/tmp/x"}},
    {"global": {"password": "a", "sudoPassword": "b", "privateKeyPath": "~/k", "bastion": [{"address": "10.9.9.9"}]}},
    {"hosts": [{"name": "cp[1:3]", "address": "10.8.0.[11:13]", "internalAddress": "10.0.0.[11:13]", "user": "x"}, W]},
    {"assets": {"sources": [{"bundle": "./x"}]}},
    {"registry": {"auths": {"docker.io": {"username": "a", "password": "b"}}}},
]


@pytest.mark.parametrize("change", OUTSIDE)
def test_connection_settings_secrets_and_sources_are_outside_the_guard(change: dict[str, Any]) -> None:
    assert digest(cluster(change)) == digest(cluster())
    assert guarded(cluster(change)) == guarded(cluster())


@pytest.mark.parametrize(
    "change",
    [
        {"kubernetes": {"version": "1.34.3"}},
        {"hosts": [{"name": "cp[1:3]", "address": "10.0.0.[12:14]"}, W]},
        {"hosts": [CP, {**W, "taints": ["a:NoSchedule"]}]},
        {"roleGroups": {"worker": ["w01"]}},
        {"global": {"ignoreErrors": True}},
        {"system": {"preInstall": [{"name": "x", "run": "true"}]}},
        {"registry": {"mirrors": {"docker.io": ["https://m.example.com"]}}},
        {"execution": {"maxFailedWorkers": 0}},
    ],
)
def test_everything_else_is_inside(change: dict[str, Any]) -> None:
    assert digest(cluster(change)) != digest(cluster())


def test_the_digest_is_stable() -> None:
    assert digest(cluster()) == digest(cluster())
    assert len(digest(cluster())) == 64


@pytest.mark.parametrize("name", ["single", "ha", "airgap", "full"])
def test_what_was_recorded_compares_as_the_file_itself(name: str) -> None:
    example = config.load(Path("examples") / f"{name}.yaml").cluster
    kept = json.loads(json.dumps(guarded(example)))
    kept["spec"]["later"] = {"field": 1}
    kept["spec"]["network"]["later"] = [1]
    assert {edit.kind for edit in edits(recorded(kept), example)} <= {EditKind.LIVE}


def test_edits_against_a_record_are_those_against_the_file() -> None:
    before = cluster({"hosts": [CP, W], **OLD})
    after = cluster(
        {
            "hosts": [{**CP, "address": "10.0.9.[11:13]"}, {"name": "w[02:04]", "address": "10.0.0.[22:24]"}],
            "roleGroups": {"etcd": ["cp[1:3]"], "controlPlane": ["cp[1:3]"], "worker": ["w[02:04]"]},
            "network": {"podCIDR": "10.1.0.0/16"},
            "kubernetes": {"version": "1.35.1"},
        }
    )
    found = [
        (edit.path, edit.old, edit.new, edit.kind.value)
        for edit in edits(recorded(guarded(before)), after)
        if edit.kind is not EditKind.LIVE
    ]
    assert ("spec.hosts[cp1].address", "10.0.0.11", "10.0.9.11", "fixed") in found
    assert ("spec.network.podCIDR", "10.244.0.0/16", "10.1.0.0/16", "fixed") in found
    assert ("spec.kubernetes.version", "v1.34.4", "v1.35.1", "upgrade") in found
    assert ("spec.hosts[w04]", None, ["worker"], "added") in found
    assert ("spec.hosts[w01]", ["worker"], None, "removed") in found
    same = [edit for edit in edits(before, after) if edit.kind is not EditKind.LIVE]
    assert found == [(edit.path, edit.old, edit.new, edit.kind.value) for edit in same]


@pytest.mark.parametrize("data", [{}, {"spec": 1}, {"spec": {"hosts": [{}]}, "metadata": {}}, {"spec": {"hosts": 1}}])
def test_anything_else_is_no_record(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"record|validation"):
        recorded(data)
