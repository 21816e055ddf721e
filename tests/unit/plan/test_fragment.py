"""Laws of joining: the empty fragment changes nothing, grouping does not matter, and what must wait does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from kubexm.errors import GraphError
from kubexm.plan import (
    EMPTY,
    ExecutionFragment,
    ExecutionNode,
    Milestone,
    join_after,
    join_per_host,
    resolve_milestones,
)
from tests.unit.plan.paper import fragment, fragments, node, unit_orders

QUORUM = Milestone("EtcdQuorum")
READY = Milestone("RuntimeReady", per_host=True)
Join = Callable[[ExecutionFragment, ExecutionFragment], ExecutionFragment]
JOINS = (join_after, join_per_host)


def edges(joined: ExecutionFragment) -> dict[str, tuple[set[str], set[str]]]:
    return {one.id: (set(one.after), set(one.after_same_host)) for one in joined.nodes}


def ids(nodes: tuple[ExecutionNode, ...]) -> list[str]:
    return [one.id.removeprefix("m.t.") for one in nodes]


@pytest.mark.parametrize("join", JOINS)
@given(part=fragments())
def test_the_empty_fragment_is_the_identity(join: Join, part: ExecutionFragment) -> None:
    assert join(EMPTY, part) == part
    assert join(part, EMPTY) == part
    assert EMPTY + part == part + EMPTY == part


@pytest.mark.parametrize("join", JOINS)
@given(one=fragments("x"), two=fragments("y"), three=fragments("z"))
def test_joining_is_associative(
    join: Join, one: ExecutionFragment, two: ExecutionFragment, three: ExecutionFragment
) -> None:
    left, right = join(join(one, two), three), join(one, join(two, three))
    assert [n.id for n in left.nodes] == [n.id for n in right.nodes]
    assert edges(left) == edges(right)


@given(one=fragments("x"), two=fragments("y"))
def test_a_barrier_holds_everything_of_the_second_until_the_first_is_done(
    one: ExecutionFragment, two: ExecutionFragment
) -> None:
    order = unit_orders(join_after(one, two).nodes)
    first = {(n.id, host) for n in one.nodes if not n.on_demand for host in n.hosts}
    for later in two.nodes:
        for host in later.hosts:
            assert first <= order[later.id, host]


@given(one=fragments("x"), two=fragments("y"))
def test_per_host_each_host_passes_at_its_own_pace(one: ExecutionFragment, two: ExecutionFragment) -> None:
    joined = join_per_host(one, two)
    order = unit_orders(joined.nodes)
    for later in two.nodes:
        for host in later.hosts:
            first = {(n.id, host) for n in one.nodes if not n.on_demand and host in n.hosts}
            assert first <= order[later.id, host]
    before = {n.id: n for n in two.nodes}
    for changed in joined.nodes[len(one.nodes) :]:
        assert changed.after == before[changed.id].after, "no new barrier"


@given(part=fragments())
def test_entries_and_exits_are_those_some_unit_of_which_is_first_or_last(part: ExecutionFragment) -> None:
    order = unit_orders(part.nodes)
    certain = {n.id for n in part.nodes if not n.on_demand}
    awaited = {done for (name, _), before in order.items() if name in certain for done in before if done[0] != name}
    entries, exits = [], []
    for n in part.nodes:
        units = [(n.id, host) for host in n.hosts] or [(n.id, "")]
        if any(not {other for other, _ in order[unit]} & certain - {n.id} for unit in units):
            entries.append(n.id)
        if n.id in certain and any(unit not in awaited for unit in units):
            exits.append(n.id)
    assert [n.id for n in part.entry_nodes] == entries
    assert [n.id for n in part.exit_nodes] == exits


def test_entry_and_exit_nodes_of_a_diamond() -> None:
    diamond = fragment(node("top"), node("l", after=["top"]), node("r", after=["top"]), node("end", after=["l", "r"]))
    assert ids(diamond.entry_nodes) == ["top"]
    assert ids(diamond.exit_nodes) == ["end"]


def test_a_node_that_waits_on_some_of_its_hosts_only_is_still_an_entry() -> None:
    part = fragment(node("one", "a"), node("two", "ab", after_same_host=["one"]))
    assert ids(part.entry_nodes) == ["one", "two"], "on b it waits for nothing"
    part = fragment(node("one", "ab"), node("two", "a", after_same_host=["one"]))
    assert ids(part.exit_nodes) == ["one", "two"], "on b nothing follows"


def test_what_runs_on_demand_does_not_stand_in_for_what_runs_anyway() -> None:
    part = fragment(node("work"), node("token", after=["work"], on_demand=True), node("join", after=["token"]))
    assert ids(part.exit_nodes) == ["work", "join"], "the token may never be made, so work has to be waited for"
    assert ids(part.entry_nodes) == ["work", "join"], "the join may not need the token, so it has to wait itself"
    only_demand = fragment(node("spare", on_demand=True))
    chained = join_after(join_after(fragment(node("first")), only_demand), fragment(node("last")))
    assert chained.nodes[-1].after == ("m.t.first",)


def test_a_host_that_a_part_leaves_out_still_waits_for_the_part_before() -> None:
    chained = join_per_host(
        join_per_host(fragment(node("x", "ab")), fragment(node("y", "a"))), fragment(node("z", "ab"))
    )
    assert set(chained.nodes[-1].after_same_host) == {"m.t.x", "m.t.y"}


def test_a_need_waits_for_its_provider_on_the_same_host_or_for_the_cluster() -> None:
    linked = resolve_milestones(
        [
            fragment(node("runtime", "ab", provides=(READY,))),
            fragment(node("etcd", "a", provides=(QUORUM,))),
            fragment(node("pods", "b", needs=(READY, QUORUM))),
        ]
    )
    assert linked.nodes[-1].after_same_host == ("m.t.runtime",)
    assert linked.nodes[-1].after == ("m.t.etcd",)


def test_several_nodes_may_provide_a_milestone_for_different_hosts() -> None:
    linked = resolve_milestones(
        [
            fragment(
                node("deb", "a", provides=(READY,)),
                node("rpm", "b", provides=(READY,)),
                node("x", "ab", needs=(READY,)),
            )
        ]
    )
    assert linked.nodes[-1].after_same_host == ("m.t.deb", "m.t.rpm")


def test_a_milestone_that_is_provided_twice_is_refused() -> None:
    twice = [fragment(node("one", "ab", provides=(READY,))), fragment(node("two", "b", provides=(READY,)))]
    with pytest.raises(GraphError, match=r"RuntimeReady on b is provided twice, by m\.t\.one and m\.t\.two") as caught:
        resolve_milestones(twice)
    assert "exactly one provider" in caught.value.hint
    with pytest.raises(GraphError, match="EtcdQuorum is provided twice"):
        resolve_milestones([fragment(node("one", "a", provides=(QUORUM,)), node("two", "b", provides=(QUORUM,)))])


def test_a_provider_that_comes_later_is_refused() -> None:
    late = [fragment(node("user", needs=(QUORUM,))), fragment(node("etcd", provides=(QUORUM,)))]
    with pytest.raises(
        GraphError, match=r"m\.t\.user needs EtcdQuorum, which m\.t\.etcd provides only later"
    ) as caught:
        resolve_milestones(late)
    assert "before" in caught.value.hint


@given(one=fragments("x"), two=fragments("y"), three=fragments("z"))
def test_linking_is_associative(one: ExecutionFragment, two: ExecutionFragment, three: ExecutionFragment) -> None:
    provider, user = (
        fragment(node("p", "abc", provides=(READY, QUORUM))),
        fragment(node("u", "ab", needs=(QUORUM, READY))),
    )
    parts = [one, provider, two, user, three]
    flat = resolve_milestones(parts)
    left = resolve_milestones([resolve_milestones(parts[:3]), *parts[3:]])
    right = resolve_milestones([*parts[:2], resolve_milestones(parts[2:])])
    assert edges(flat) == edges(left) == edges(right)
    assert [n.id for n in flat.nodes] == [n.id for n in left.nodes] == [n.id for n in right.nodes]
    assert resolve_milestones([flat]) == flat


def test_a_need_nobody_provides_yet_stays_open_for_the_next_join() -> None:
    inner = resolve_milestones([fragment(node("user", needs=(QUORUM,)))])
    assert inner.nodes[0].after == ()
    outer = resolve_milestones([fragment(node("etcd", provides=(QUORUM,))), inner])
    assert outer.nodes[1].after == ("m.t.etcd",)
