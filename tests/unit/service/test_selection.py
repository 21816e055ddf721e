"""Choosing by what users write: ids, starts of ids, patterns; and help when nothing fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Key
from kubexm.errors import PlanError, UsageError
from kubexm.plan import ExecutionGraph
from kubexm.service.selection import choose_hosts, choose_nodes
from tests.unit.plan.paper import Paper, graph, node
from tests.unit.runtime.clusters import cluster_file

TOKEN: Key[str] = Key("token")


@pytest.fixture
def plan() -> ExecutionGraph:
    return graph(
        node("etcd.install.fetch"),
        node("etcd.install.start", after=["etcd.install.fetch"]),
        node("etcd.check.health", after=["etcd.install.start"]),
        node("network.flannel.apply", after=["etcd.check.health"]),
    )


def left(chosen: ExecutionGraph) -> list[str]:
    return [n.id for n in chosen.nodes.values() if not n.excluded]


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        ([], [], ["etcd.install.fetch", "etcd.install.start", "etcd.check.health", "network.flannel.apply"]),
        (["etcd"], [], ["etcd.install.fetch", "etcd.install.start", "etcd.check.health"]),
        (["etcd.install"], [], ["etcd.install.fetch", "etcd.install.start"]),
        (["etcd.install.start"], [], ["etcd.install.start"]),
        (["*.start", "network"], [], ["etcd.install.start", "network.flannel.apply"]),
        ([], ["etcd.install"], ["etcd.check.health", "network.flannel.apply"]),
        (["etcd"], ["*.fetch"], ["etcd.install.start", "etcd.check.health"]),
    ],
)
def test_parts_of_a_plan(plan: ExecutionGraph, only: list[str], skip: list[str], expected: list[str]) -> None:
    assert left(choose_nodes(plan, only, skip)) == expected


def test_the_start_of_a_word_is_not_a_name(plan: ExecutionGraph) -> None:
    with pytest.raises(UsageError, match="'etc' selects nothing in this plan"):
        choose_nodes(plan, ["etc"], [])


def test_a_slip_finds_its_neighbour(plan: ExecutionGraph) -> None:
    for wrong, right in (
        ("etcd.instal", "etcd.install"),
        ("netwrk", "network"),
        ("etcd.install.strat", "etcd.install.start"),
    ):
        with pytest.raises(UsageError) as caught:
            choose_nodes(plan, [], [wrong])
        assert caught.value.hint == f"did you mean `{right}`?"
    with pytest.raises(UsageError) as caught:
        choose_nodes(plan, ["zzz"], [])
    assert caught.value.hint == "names: etcd, network"


def test_what_others_need_the_value_of_cannot_be_left_out() -> None:
    makers = graph(
        node("a.t.make", "a", Paper(makes=(TOKEN,))), node("b.t.take", "a", Paper(takes=(TOKEN,)), after=["a.t.make"])
    )
    with pytest.raises(PlanError, match=r"b\.t\.take needs token"):
        choose_nodes(makers, ["b"], [])


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    body = """
hosts:
  - {name: "cp[1:3]", address: "10.0.0.[1:3]"}
  - {name: "w[01:12]", address: "10.0.1.[1:12]"}
roleGroups: {etcd: ["cp[1:3]"], controlPlane: ["cp[1:3]"], worker: ["w[01:12]", cp3], storage: [w01, w02]}
"""
    return config.load(cluster_file(tmp_path, body)).cluster


@pytest.mark.parametrize(
    ("roles", "limit", "expected"),
    [
        (["controlPlane"], [], ["cp1", "cp2", "cp3"]),
        ([], ["w0[12]", "cp1"], ["cp1", "w01", "w02"]),
        (["worker"], ["cp*", "w1*"], ["cp3", "w10", "w11", "w12"]),
        (["storage", "etcd"], [], ["cp1", "cp2", "cp3", "w01", "w02"]),
    ],
)
def test_hosts_by_role_and_name(cluster: Cluster, roles: list[str], limit: list[str], expected: list[str]) -> None:
    assert choose_hosts(cluster, roles, limit) == expected


def test_no_choice_is_all_hosts(cluster: Cluster) -> None:
    assert choose_hosts(cluster, [], []) is None


@pytest.mark.parametrize(
    ("roles", "limit", "message", "hint"),
    [
        (["controlplane"], [], "there is no role 'controlplane'", "did you mean `controlPlane`?"),
        (["zzz"], [], "there is no role 'zzz'", "there are: "),
        ([], ["cp9"], "no host is called 'cp9'", "did you mean `cp"),
        ([], ["zzz"], "no host is called 'zzz'", "hosts: cp1, cp2"),
        (["storage"], ["cp1", "cp2"], "among storage is none of cp1, cp2", "hosts: cp1, cp2"),
    ],
)
def test_slips_are_met_with_help(cluster: Cluster, roles: list[str], limit: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        choose_hosts(cluster, roles, limit)
    assert caught.value.hint.startswith(hint)
