"""What comes before what, unit by unit, against a brute-force search of the same graph."""

from __future__ import annotations

from hypothesis import given

from kubexm.plan import ExecutionFragment
from kubexm.plan.order import Precedence, ordered
from tests.unit.plan.paper import fragment, fragments, node, unit_orders


@given(part=fragments(most=7))
def test_each_node_follows_all_it_waits_for_and_the_order_is_stable(part: ExecutionFragment) -> None:
    once = ordered(part.nodes)
    assert ordered(once) == once
    assert sorted(n.id for n in once) == sorted(n.id for n in part.nodes)
    place = {n.id: index for index, n in enumerate(once)}
    assert all(place[other] < place[n.id] for n in once for other in (*n.after, *n.after_same_host))


def test_reading_order_is_kept_where_edges_leave_a_choice() -> None:
    nodes = fragment(node("z"), node("late", after=["a"]), node("a"), node("b")).nodes
    assert [n.id for n in ordered(nodes)] == ["m.t.z", "m.t.a", "m.t.late", "m.t.b"]


@given(part=fragments(most=6))
def test_precedence_is_what_a_search_finds(part: ExecutionFragment) -> None:
    order = Precedence(part.nodes)
    truth = unit_orders(part.nodes)
    for maker in part.nodes:
        if maker.on_demand:
            continue  # whoever demands one waits for it: the next test
        for user in part.nodes:
            if user is maker:
                continue
            missing = [h for h in maker.hosts if any((maker.id, h) not in truth[user.id, u] for u in user.hosts)]
            assert order.not_before_all(maker, user) == missing
            same = [host for host in user.hosts if (maker.id, host) in truth[user.id, host]]
            assert order.before_same_host(maker, user) == same


def test_a_node_on_demand_is_before_its_consumers_and_nobody_else() -> None:
    token = node("token", "a", on_demand=True)
    join = node("join", "bc", after=["token"])
    after_join = node("ready", "bc", after_same_host=["join"])
    first = node("first", "b")
    order = Precedence(fragment(first, token, join, after_join).nodes)
    assert order.not_before_all(token, join) == []
    assert order.not_before_all(token, after_join) == ["a"], "the join may not have needed it"
    assert order.not_before_all(first, join) == ["b"]
    chained = Precedence(fragment(first, node("token", "a", on_demand=True, after=["first"]), join).nodes)
    assert chained.not_before_all(first, join) == ["b"], "a token that nobody asks for waits for nobody"
