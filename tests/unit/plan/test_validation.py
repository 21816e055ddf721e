"""A plan that is not well formed is refused, with everything that is wrong with it, in the same words each time."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.cache import Key, Scope
from kubexm.errors import GraphError
from kubexm.plan import ExecutionFragment, ExecutionNode, Milestone
from kubexm.plan.validation import find_cycle, validate
from tests.unit.plan.paper import Paper, fragment, fragments, node

CLUSTER: Key[str] = Key("token")
OWN: Key[str] = Key("member-id", per_host=True)


def problems(*nodes: ExecutionNode, known: str | None = None) -> list[str]:
    try:
        validate(nodes, known_hosts=known)
    except GraphError as error:
        first, *rest = error.message.splitlines()
        assert first == "the plan is not well formed:"
        return [line.strip().replace("m.t.", "") for line in rest]
    return []


@given(part=fragments(most=7))
def test_what_is_well_formed_passes(part: ExecutionFragment) -> None:
    calm = [replace(n, on_demand=False) for n in part.nodes]
    validate(calm, known_hosts="abc")


@given(part=fragments(most=7), data=st.data())
def test_every_planted_cycle_is_found_with_its_path(part: ExecutionFragment, data: st.DataObject) -> None:
    nodes = {n.id: n for n in part.nodes}
    chain = data.draw(st.lists(st.sampled_from(sorted(nodes)), unique=True, min_size=1)) if nodes else []
    for one, other in zip(chain, [*chain[1:], *chain[:1]], strict=True):
        nodes[other] = replace(nodes[other], after=(*nodes[other].after, one))
    found = find_cycle(nodes.values())
    if not chain:
        assert found == []
        return
    assert found[0] == found[-1]
    assert len(set(found)) == len(found) - 1
    for upstream, downstream in pairwise(found):
        assert upstream in (*nodes[downstream].after, *nodes[downstream].after_same_host)
    shuffled = list(nodes.values())
    random.Random(len(found)).shuffle(shuffled)
    assert find_cycle(shuffled) == found, "the same graph prints the same cycle"
    with pytest.raises(GraphError, match=re.escape("cycle: " + " → ".join(found))):
        validate(list(nodes.values()))


def test_a_cycle_reads_in_the_order_of_the_work() -> None:
    assert problems(node("a", after=["c"]), node("b", after=["a"]), node("c", after_same_host=["b"])) == [
        "cycle: a → b → c → a"
    ]
    assert problems(node("self", after=["self"])) == ["cycle: self → self"]


def test_all_problems_come_at_once() -> None:
    found = problems(
        node("one", "ax"), node("one", "a"), node("two", "aa", after=["gone"]), node("bad.id", "a"), known="ab"
    )
    assert found == [
        "one: two nodes have this id",
        "bad.id: an id reads module.task.node, in letters, digits, `-` and `_`",
        "one: unknown hosts x",
        "two: names a host twice",
        "two: waits for gone, which is not in the plan",
    ]


def test_waiting_on_the_same_host_needs_a_host_in_common() -> None:
    assert problems(node("one", "a"), node("two", "b", after_same_host=["one"])) == [
        "two: waits for one on the same host, but they share none"
    ]


def test_a_need_without_a_provider_is_named_with_its_hosts() -> None:
    ready, quorum = Milestone("Ready", per_host=True), Milestone("Quorum")
    assert problems(node("x", needs=(quorum,))) == ["x: nothing provides Quorum"]
    partly = node("p", "a", provides=(ready,))
    assert problems(partly, node("x", "abc", needs=(ready,), after_same_host=["p"])) == [
        "x: nothing provides Ready on b, c"
    ]


def makes(name: str, hosts: str, *keys: Key[str], **more: object) -> ExecutionNode:
    return node(name, hosts, Paper(makes=keys), **more)


def takes(name: str, hosts: str, *keys: Key[str], **more: object) -> ExecutionNode:
    return node(name, hosts, Paper(takes=keys), **more)


def gathers(name: str, hosts: str, *keys: Key[str], **more: object) -> ExecutionNode:
    return node(name, hosts, Paper(collects=keys), **more)


def test_a_value_needs_a_producer() -> None:
    assert problems(takes("c", "a", CLUSTER)) == [
        "c: needs the value token, which no node produces where it could see it"
    ]


def test_a_value_of_the_cluster_needs_a_barrier_or_the_same_single_host() -> None:
    p = makes("p", "a", CLUSTER)
    assert problems(p, takes("c", "bc", CLUSTER, after=["p"])) == []
    assert problems(p, takes("c", "a", CLUSTER, after_same_host=["p"])) == []
    lost = ["c: needs the value token, but does not wait for p on a"]
    assert problems(p, takes("c", "ab", CLUSTER, after_same_host=["p"])) == lost
    assert problems(p, takes("c", "a", CLUSTER)) == lost


def test_a_same_host_edge_passes_a_barrier_on_only_to_the_hosts_it_has() -> None:
    p, x = makes("p", "a", CLUSTER), node("x", "a", after=["p"])
    assert problems(p, x, takes("c", "a", CLUSTER, after_same_host=["x"])) == []
    assert problems(p, x, takes("c", "ab", CLUSTER, after_same_host=["x"])) == [
        "c: needs the value token, but does not wait for p on a"
    ]
    other = node("y", "b", after=["p"])
    assert problems(p, x, other, takes("c", "ab", CLUSTER, after_same_host=["x", "y"])) == []


def test_a_value_of_each_host_needs_its_own_host_only() -> None:
    p = makes("p", "ab", OWN)
    assert problems(p, takes("c", "ab", OWN, after_same_host=["p"])) == []
    assert problems(p, takes("c", "ab", OWN, after=["p"])) == []
    assert problems(p, takes("c", "abc", OWN, after=["p"])) == [
        "c: needs the value member-id on c, where no node produces it earlier"
    ]


def test_a_barrier_after_a_part_of_the_hosts_covers_that_part_only() -> None:
    p, x = makes("p", "ab", OWN), node("x", "a", after_same_host=["p"])
    assert problems(p, x, takes("c", "ab", OWN, after=["x"])) == [
        "c: needs the value member-id on b, where no node produces it earlier"
    ]
    assert problems(p, x, gathers("c", "a", OWN, after=["x"])) == [
        "c: needs the value member-id, but does not wait for p on b"
    ]


def test_gathering_needs_every_host_of_every_producer() -> None:
    p, q = makes("p", "a", OWN), makes("q", "b", OWN)
    assert problems(p, q, gathers("c", "c", OWN, after=["p", "q"])) == []
    assert problems(p, q, gathers("c", "c", OWN, after=["p"])) == [
        "c: needs the value member-id, but does not wait for q on b"
    ]


def test_two_producers_may_share_the_hosts() -> None:
    p, q = makes("p", "a", OWN), makes("q", "b", OWN)
    assert problems(p, q, takes("c", "ab", OWN, after_same_host=["p", "q"])) == []


def test_a_node_does_not_produce_for_itself() -> None:
    both = node("c", "a", Paper(makes=(OWN,), takes=(OWN,)))
    assert problems(both) == ["c: needs the value member-id, which no node produces where it could see it"]


@pytest.mark.parametrize(
    ("scope", "producer", "seen"),
    [
        (Scope.PIPELINE, "other.task.p", True),
        (Scope.MODULE, "m.other.p", True),
        (Scope.MODULE, "other.t.p", False),
        (Scope.TASK, "m.t.p", True),
        (Scope.TASK, "m.other.p", False),
        (Scope.STEP, "m.t.p", False),
    ],
)
def test_a_value_is_seen_within_its_scope(scope: Scope, producer: str, seen: bool) -> None:
    key: Key[str] = Key("k", scope=scope)
    found = problems(makes(producer, "a", key), takes("c", "a", key, after=[producer]))
    assert bool(found) is not seen


def test_on_demand_is_for_producers_and_their_consumers() -> None:
    assert problems(node("idle", on_demand=True)) == ["idle: runs on demand, but nothing waits for it"]
    token = makes("token", "a", CLUSTER, on_demand=True)
    assert problems(token, takes("join", "bc", CLUSTER, after=["token"])) == []
    assert problems(token, node("other", "b", after=["token"])) == [
        "other: waits for token, which runs on demand, without consuming its values"
    ]


def test_who_consumes_what_is_made_on_demand_waits_for_it_itself() -> None:
    token = makes("token", "a", CLUSTER, on_demand=True)
    join = takes("join", "b", CLUSTER, after=["token"])
    assert problems(token, join, takes("more", "b", CLUSTER, after=["join"])) == [
        "more: needs the value token, but does not wait for token on a"
    ]


def test_nodes_without_hosts_pass_a_barrier_on() -> None:
    p, gate = makes("p", "ab", OWN), node("gate", "", after=["p"])
    assert problems(p, gate, gathers("c", "c", OWN, after=["gate"])) == []
    assert problems(*fragment(p, takes("c", "", OWN, after=["p"])).nodes) == []


@pytest.mark.parametrize(
    "name", ["m.t", "m..n", "m.t.", "../m.t.x/y", "m.t.n@a", "m.t.n.", "m.t.x y", "m.t.n./x", ".m.t"]
)
def test_an_id_is_safe_to_name_a_file_after(name: str) -> None:
    assert "an id reads" in str(problems(ExecutionNode(id=name, step=Paper(), hosts=("a",))))


def test_ids_of_rolling_batches_name_their_first_host() -> None:
    assert problems(ExecutionNode(id="m.t.n.n1.example.com+2", step=Paper(), hosts=("a",))) == []
