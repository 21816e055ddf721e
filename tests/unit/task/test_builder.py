"""Building fragments: ids, hosts and edges come out as written, and what cannot be right is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import Host
from kubexm.errors import GraphError
from kubexm.plan import EMPTY, ExecutionFragment, ExecutionNode, Milestone, Retry
from kubexm.plan.validation import find_cycle
from kubexm.runtime import TaskContext
from kubexm.task import FragmentBuilder, NodeHandle, Task
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.plan.paper import Paper

A, B = Host(name="a", address="10.0.0.1"), Host(name="b", address="10.0.0.2")
READY = Milestone("Ready", per_host=True)
QUORUM = Milestone("Quorum")


def test_nodes_come_out_as_they_were_added() -> None:
    g = FragmentBuilder("etcd.install")
    fetch = g.add("fetch", Paper(), on=A)
    push = g.add("push", Paper(note="x"), on=[A, B], after=[fetch], retry=Retry(times=2), timeout=60, max_parallel=1)
    g.add("start", Paper(), on=iter([B]), after_same_host=[push, push], provides=QUORUM, needs=[READY], weight=3.0)
    g.add("none", Paper(), on=(), optional=True, on_demand=True)
    assert g.build().nodes == (
        ExecutionNode(id="etcd.install.fetch", step=Paper(), hosts=("a",)),
        ExecutionNode(
            id="etcd.install.push",
            step=Paper(note="x"),
            hosts=("a", "b"),
            after=("etcd.install.fetch",),
            retry=Retry(times=2),
            timeout=60,
            max_parallel=1,
        ),
        ExecutionNode(
            id="etcd.install.start",
            step=Paper(),
            hosts=("b",),
            after_same_host=("etcd.install.push",),
            provides=(QUORUM,),
            needs=(READY,),
            weight=3.0,
        ),
        ExecutionNode(id="etcd.install.none", step=Paper(), hosts=(), optional=True, on_demand=True),
    )


def test_a_name_is_used_once() -> None:
    g = FragmentBuilder("etcd.install")
    g.add("fetch", Paper(), on=A)
    with pytest.raises(GraphError, match=r"etcd\.install\.fetch: two nodes have this id"):
        g.add("fetch", Paper(), on=B)


def test_handles_of_another_builder_are_refused() -> None:
    other = FragmentBuilder("pki.make").add("ca", Paper(), on=A)
    with pytest.raises(GraphError, match=r"pki\.make\.ca was added to another builder") as caught:
        FragmentBuilder("etcd.install").add("fetch", Paper(), on=A, after=[other])
    assert "milestones" in caught.value.hint


@pytest.mark.parametrize(
    ("task", "name"), [("etcd", "x"), ("etcd.", "x"), ("a.b.c", "x"), ("a.b", "x.y"), ("a.b", ""), ("a.b", "../x")]
)
def test_an_id_has_three_parts(task: str, name: str) -> None:
    with pytest.raises(GraphError, match=r"reads module\.task(\.node)?, in letters"):
        FragmentBuilder(task).add(name, Paper(), on=A)


@given(data=st.data())
def test_no_cycle_can_be_written(data: st.DataObject) -> None:
    g = FragmentBuilder("m.t")
    handles: list[NodeHandle] = []
    for number in range(data.draw(st.integers(1, 8))):
        upstream = data.draw(st.lists(st.sampled_from(handles))) if handles else []
        half = len(upstream) // 2
        handles.append(g.add(f"n{number}", Paper(), on=[A], after=upstream[:half], after_same_host=upstream[half:]))
    assert not find_cycle(g.build().nodes)


class Install(Task):
    """Needed unless the host has it."""

    def __init__(self, *, required: bool) -> None:
        self._required = required

    def is_required(self, ctx: TaskContext) -> bool:
        return self._required

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("m.install")
        g.add("do", Paper(), on=ctx.hosts(), provides=READY)
        return g.build()


class Checked(Install):
    """As Install; where it is not needed, something still proves the milestone."""

    def plan_check(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("m.install")
        g.add("is-there", Paper(), on=ctx.hosts(), provides=READY)
        return g.build()


def test_what_is_not_required_is_empty_or_its_check(tmp_path: Path) -> None:
    ctx = memory_context(tmp_path, {"a": MemoryConnector("a")}).pipeline_context().for_module().for_task()
    assert [n.id for n in Install(required=True).fragment(ctx).nodes] == ["m.install.do"]
    assert Install(required=False).fragment(ctx) == EMPTY
    (check,) = Checked(required=False).fragment(ctx).nodes
    assert (check.id, check.provides) == ("m.install.is-there", (READY,))
