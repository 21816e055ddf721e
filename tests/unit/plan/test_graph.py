"""The whole plan: the same inputs give the same bytes, nodes can be changed in their places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubexm.errors import GraphError
from kubexm.plan import ExecutionGraph, ExecutionNode, Retry
from tests.unit.plan.paper import Paper, fragment, graph, node


def test_nodes_stand_in_an_order_in_which_each_follows_what_it_waits_for() -> None:
    built = graph(node("late", after=["early"]), node("early"))
    assert list(built.nodes) == ["m.t.early", "m.t.late"]


def test_hosts_and_units_are_counted() -> None:
    built = graph(node("one", "ab"), node("two", "cb"), node("gate", ""))
    assert built.hosts == ("a", "b", "c")
    assert built.units == 4


def test_unknown_hosts_are_refused() -> None:
    with pytest.raises(GraphError, match="unknown hosts z"):
        graph(node("one", "az"), known="abc")


def test_a_graph_cannot_be_changed() -> None:
    built = graph(node("one"))
    with pytest.raises(TypeError):
        built.nodes["m.t.two"] = node("two")  # type: ignore[index]


def test_equal_plans_have_equal_digests_and_others_do_not() -> None:
    assert graph(node("one", "ab")).digest == graph(node("one", "ab")).digest
    assert graph(node("one", "ab")).digest != graph(node("one", "ba")).digest
    assert graph(node("one")).digest != graph(node("one", retry=Retry(times=1))).digest
    assert graph(node("one")).digest != ExecutionGraph.build("other", fragment(node("one"))).digest


def test_nodes_can_be_changed_in_their_places() -> None:
    built = graph(node("one"), node("two", after=["one"]), node("three", after=["two"]))
    rest = built.changed(lambda n: replace(n, excluded="why") if n.id == "m.t.two" else n)
    assert {n.id: n.excluded for n in rest.nodes.values()} == {"m.t.one": "", "m.t.two": "why", "m.t.three": ""}
    assert rest.nodes["m.t.three"].after == ("m.t.two",)
    assert built.nodes["m.t.two"].excluded == "", "the graph itself is as it was"


def test_ignoring_errors_makes_every_node_optional() -> None:
    assert all(n.optional for n in graph(node("one"), node("two")).all_optional().nodes.values())


def test_the_parts_of_an_id() -> None:
    def parts(name: str) -> tuple[str, str]:
        one = ExecutionNode(id=name, step=Paper(), hosts=("a",))
        return one.module, one.task

    assert parts("etcd.install.start") == ("etcd", "etcd.install")
    assert parts("etcd.install.start.n1.example.com") == ("etcd", "etcd.install")


def test_retries_wait_longer_each_time_up_to_a_bound() -> None:
    retry = Retry(times=9, delay=1.0, most=10.0)
    assert [retry.wait(attempt) for attempt in (1, 2, 3, 4, 5, 60)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
