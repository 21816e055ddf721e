"""What a picture leaves out follows from what it shows, unit by unit, for any graph."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from kubexm.plan import ExecutionGraph
from kubexm.plan.render import Edge, all_edges, telling_edges
from tests.unit.engine.graphs import examples, graphs
from tests.unit.plan.render.samples import graph


def test_the_sample() -> None:
    left_out = set(all_edges(graph())) - set(telling_edges(graph()))
    assert left_out == {
        Edge("preflight.hosts.clock", "etcd.install.start"),
        Edge("preflight.hosts.ports", "control-plane.init.api", same_host=True),
    }


@examples(60)
@given(graphs(most_nodes=9))
def test_nothing_is_lost(plan: ExecutionGraph) -> None:
    assert _order(plan, telling_edges(plan)) == _order(plan, all_edges(plan))


@examples(40)
@given(graphs(most_nodes=7))
def test_nothing_is_needless_where_all_hosts_do_the_same(drawn: ExecutionGraph) -> None:
    nodes = {name: replace(node, hosts=("a", "b")) for name, node in drawn.nodes.items()}
    plan = ExecutionGraph(drawn.name, nodes)
    shown = telling_edges(plan)
    order = _order(plan, shown)
    for edge in shown:
        if not edge.on_demand:
            assert _order(plan, [other for other in shown if other != edge]) != order


def _order(plan: ExecutionGraph, edges: list[Edge]) -> set[tuple[str, str]]:
    """Every pair of units of which one must end before the other begins; a barrier is a point of its own."""
    before: dict[str, set[str]] = {}

    def wait(who: str, for_whom: str) -> None:
        before.setdefault(who, set()).update({for_whom} | before.get(for_whom, set()))

    for node in plan.nodes.values():
        mine = [edge for edge in edges if edge.target == node.id and not edge.on_demand]
        for edge in mine:
            if not edge.same_host:
                wait(f"{node.id}>", f"{edge.source}<")
        for host in node.hosts:
            wait(f"{node.id}@{host}", f"{node.id}>")
            for edge in mine:
                if edge.same_host and host in plan.nodes[edge.source].hosts:
                    wait(f"{node.id}@{host}", f"{edge.source}@{host}")
            wait(f"{node.id}<", f"{node.id}@{host}")
        wait(f"{node.id}<", f"{node.id}>")
    return {(one, other) for other, ones in before.items() if "@" in other for one in ones if "@" in one}
