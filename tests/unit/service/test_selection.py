"""Choosing by what users write: ids, starts of ids, patterns; and help when nothing fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.cache import Key
from kubexm.errors import UsageError
from kubexm.plan import ExecutionGraph
from kubexm.service.selection import choose_hosts, choose_nodes
from kubexm.step import NOTHING, OnlyRead, Resources, resources
from tests.unit.plan.paper import Paper, graph, node
from tests.unit.runtime.clusters import cluster_file

SEED: Key[str] = Key("seed")
TOKEN: Key[str] = Key("token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper(Paper):
    """Says which secret it makes or takes, and touches no more."""

    makes_secret: str = ""
    takes_secret: str = ""

    def reads(self) -> Resources:
        return resources(f"secret:{self.takes_secret}") if self.takes_secret else NOTHING

    def writes(self) -> Resources:
        return resources(f"secret:{self.makes_secret}") if self.makes_secret else NOTHING


@pytest.fixture
def plan() -> ExecutionGraph:
    return graph(
        node("etcd.install.fetch"),
        node("etcd.install.start", after=["etcd.install.fetch"]),
        node("etcd.check.health", after=["etcd.install.start"]),
        node("network.flannel.apply", after=["etcd.check.health"]),
    )


def test_a_bracket_is_run_or_skipped_as_a_whole() -> None:
    plan = graph(
        node("nodes.roll.cordon", on_demand=True),
        node("nodes.roll.restart", after_same_host=["nodes.roll.cordon"]),
        node("nodes.roll.uncordon", after_same_host=["nodes.roll.restart"], closes="nodes.roll.cordon"),
        node("nodes.settle.ready", after=["nodes.roll.uncordon"]),
    )
    assert left(choose_nodes(plan, ["nodes.roll.restart"], [])) == [
        "nodes.roll.cordon",
        "nodes.roll.restart",
        "nodes.roll.uncordon",
    ]
    assert left(choose_nodes(plan, [], ["nodes.roll.cordon"])) == ["nodes.settle.ready"]


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


@pytest.fixture
def chain() -> ExecutionGraph:
    """A value that is made from another one and taken twice, and a secret."""
    return graph(
        node("a.t.first", "a", Paper(makes=(SEED,))),
        node("b.t.make", "a", Paper(makes=(TOKEN,), takes=(SEED,)), after=["a.t.first"]),
        node("b.t.other", "a"),
        node("b.t.secret", "a", Keeper(makes_secret="key")),
        node("c.t.take", "a", Paper(takes=(TOKEN,)), after=["b.t.make"]),
        node("d.t.gather", "a", Paper(collects=(TOKEN,)), after=["b.t.make"]),
        node("e.t.file", "a", Keeper(takes_secret="key"), after=["b.t.secret"]),
        node("f.t.later", "a", Keeper(makes_secret="key"), after=["e.t.file"]),
    )


def test_what_makes_values_for_the_chosen_ones_is_kept(chain: ExecutionGraph) -> None:
    for only in ("c", "d.t.gather"):
        chosen = choose_nodes(chain, [only], [])
        assert left(chosen) == ["a.t.first", "b.t.make", "c.t.take" if only == "c" else only]
        assert chosen.nodes["b.t.make"] == chain.nodes["b.t.make"]
        assert chosen.nodes["b.t.other"].excluded == "not named by --only"


def test_what_makes_a_secret_for_the_chosen_ones_is_kept_unless_it_comes_later(chain: ExecutionGraph) -> None:
    assert left(choose_nodes(chain, ["e"], [])) == ["b.t.secret", "e.t.file"]


def test_what_is_skipped_is_only_read_where_its_values_are_needed(chain: ExecutionGraph) -> None:
    chosen = choose_nodes(chain, [], ["b"])
    assert left(chosen) == ["a.t.first", "b.t.make", "c.t.take", "d.t.gather", "e.t.file", "f.t.later"]
    step = chosen.nodes["b.t.make"].step
    assert isinstance(step, OnlyRead)
    assert (step.step, step.needed_by) == (chain.nodes["b.t.make"].step, "d.t.gather")
    assert (step.writes(), step.produces(), step.consumes()) == (NOTHING, (TOKEN,), (SEED,))
    assert chosen.nodes["b.t.secret"].excluded == "left out by --skip"
    assert ExecutionGraph.from_dict(chosen.to_dict()).digest == chosen.digest
    both = choose_nodes(chain, ["c"], ["b"])
    assert left(both) == ["a.t.first", "b.t.make", "c.t.take"]
    assert isinstance(both.nodes["b.t.make"].step, OnlyRead)
    assert left(choose_nodes(chain, [], ["b", "c", "d"])) == ["a.t.first", "e.t.file", "f.t.later"]


def test_copies_for_one_host_each_are_named_together_or_alone() -> None:
    copies = graph(node("k.run.api.a", "a"), node("k.run.api.b", "b", after=["k.run.api.a"]), node("k.run.apis", "a"))
    assert left(choose_nodes(copies, ["k.run.api"], [])) == ["k.run.api.a", "k.run.api.b"]
    assert left(choose_nodes(copies, ["*.api"], [])) == ["k.run.api.a", "k.run.api.b"]
    assert left(choose_nodes(copies, ["k.run.api.b"], [])) == ["k.run.api.b"]
    with pytest.raises(UsageError) as caught:
        choose_nodes(copies, ["k.run.aip"], [])
    assert caught.value.hint == "did you mean `k.run.api`?"


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
