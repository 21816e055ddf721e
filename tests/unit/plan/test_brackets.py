"""Brackets of a plan: what lies in them, what is chosen with them, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kubexm.cache import Key
from kubexm.errors import GraphError
from kubexm.plan import ExecutionNode, with_whole_brackets
from kubexm.plan.brackets import Bracket
from tests.unit.plan.paper import Paper, graph, node

OUT, WORK, MORE, BACK = "m.roll.out", "m.roll.work", "m.roll.more", "m.roll.back"


def bracket(**back: object) -> list[ExecutionNode]:
    closing: dict[str, Any] = {"hosts": "ab", "after_same_host": [WORK], "closes": OUT, **back}
    return [
        node(OUT, "ab", on_demand=True),
        node(WORK, "ab", after_same_host=[OUT]),
        node(BACK, **closing),
    ]


def test_what_waits_for_the_opening_node_and_is_waited_for_by_the_closing_one_is_inside() -> None:
    plan = graph(
        node("m.before.a", "ab"),
        *bracket(after_same_host=[MORE]),
        node(MORE, "b", after=[WORK, "m.before.a"]),
        node("m.beside.b", "a", after=[WORK]),
        node("m.after.c", "a", after=[BACK]),
    )
    assert plan.brackets == (Bracket(OUT, BACK, frozenset({WORK, MORE})),)


def test_a_bracket_is_chosen_whole_and_so_are_those_around_it() -> None:
    inner = Bracket("open2", "close2", frozenset({"work"}))
    outer = Bracket("open1", "close1", frozenset({"open2", "work", "close2", "more"}))
    other = Bracket("open3", "close3", frozenset({"apart"}))
    chosen = with_whole_brackets(["work", "alone"], [inner, outer, other])
    assert chosen == {*outer.members, *inner.members, "alone"}


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (bracket(closes="m.roll.nothing"), "closes m.roll.nothing, which is not in the plan"),
        (bracket(hosts="a"), "closes m.roll.out, which runs on other hosts"),
        (bracket(after_same_host=[]), "closes m.roll.out, but does not wait for it"),
        (bracket(on_demand=True), "may neither run on demand nor need values"),
        (bracket(after_same_host=[WORK, OUT]), "cannot ask for something on demand"),
        ([*bracket(), node("m.roll.again", "ab", after=[WORK], closes=OUT)], "is closed twice, by"),
        (
            [node(OUT, "ab", on_demand=True), node(WORK, "ab", after=[OUT]), bracket()[-1]],
            "asks for m.roll.out on every host, but brackets are closed host by host",
        ),
        (
            [*bracket(), node("m.roll.stray", "ab", after_same_host=[OUT])],
            "m.roll.stray: asks for m.roll.out, but m.roll.back does not wait for it",
        ),
    ],
)
def test_a_bracket_that_could_not_be_closed_is_refused(nodes: list[ExecutionNode], problem: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph(*nodes)
    assert problem in str(caught.value)


def test_a_closing_node_needs_no_values() -> None:
    token: Key[str] = Key("token")
    nodes = [
        node("m.roll.token", "a", step=Paper(makes=(token,))),
        *bracket(step=Paper(takes=(token,)), after=["m.roll.token"]),
    ]
    with pytest.raises(GraphError, match="nor need values"):
        graph(*nodes)
