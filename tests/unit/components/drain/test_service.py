"""Work that takes nodes out of service, as it is planned and as the engine carries it out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubexm.components.drain import Cordoned, Drained, batches, disruptive
from kubexm.components.topology import nodes
from kubexm.connector import Host
from kubexm.engine import Cancellation
from kubexm.errors import PlanError
from kubexm.events import Event, EventKind
from kubexm.module import rolling
from kubexm.plan import ExecutionFragment, ExecutionGraph, Milestone, RunStatus
from kubexm.plan.render import PlanFormat, render
from kubexm.runtime import Context, TaskContext
from kubexm.task import Batch, FragmentBuilder
from kubexm.testing.context import memory_context
from tests.unit.components.around import SINGLE, Reached, cluster, context_of, marked
from tests.unit.components.drain.objects import Document, budget, node, pod
from tests.unit.components.drain.test_steps import Cluster
from tests.unit.engine.world import Died, Mortal, Thing, World, execute

DONE = Milestone("Done")


def work(batch: Batch) -> ExecutionFragment:
    g = FragmentBuilder("x.roll", batch)
    first = g.add("files", Thing(name="files"), on=batch.hosts)
    restart = g.add("kubelet", Thing(name="kubelet"), on=batch.hosts, after_same_host=[first])
    g.add("asked", Reached(name="asked"), on=batch.hosts, after_same_host=[restart])
    return g.build()


def plan(ctx: TaskContext, hosts: Sequence[Host], **more: Any) -> ExecutionGraph:
    def part(batch: Batch) -> ExecutionFragment:
        return disruptive(ctx, work(batch), batch, task="x.roll", operation="create", **more)

    return ExecutionGraph.build("test", rolling(batches(ctx, hosts), part))


def planned(tmp_path: Path, more: str = "", *, file: str = "", **options: Any) -> ExecutionGraph:
    facts = {name: {"marker": marked("etcd", "controlPlane")} for name in ("cp1", "cp2", "cp3")}
    ctx = context_of(file or cluster(more), tmp_path, {} if file else facts).pipeline_context().for_module().for_task()
    return plan(ctx, nodes(ctx), **options)


def test_each_node_is_cordoned_drained_proven_and_uncordoned_around_the_work(tmp_path: Path) -> None:
    graph = planned(tmp_path, takes_out={"kubelet"}, soak=5.0)
    kubelet, serves = graph.nodes["x.roll.kubelet.w1"], graph.nodes["x.roll.serves.w1"]
    assert kubelet.after_same_host == ("x.roll.files.w1", "x.roll.cordon.w1", "x.roll.drain.w1")
    assert graph.nodes["x.roll.drain.w1"].after_same_host == ("x.roll.cordon.w1",)
    assert serves.after_same_host == ("x.roll.asked.w1",)
    back = graph.nodes["x.roll.uncordon.w1"]
    assert (back.closes, back.after_same_host) == ("x.roll.cordon.w1", ("x.roll.serves.w1",))
    assert graph.nodes["x.roll.soak.w1"].after_same_host == ("x.roll.uncordon.w1",)
    assert graph.nodes["x.roll.files.w2"].after == ("x.roll.soak.w1",)
    assert graph.nodes["x.roll.cordon.w2"].after == ("x.roll.soak.w1",)


def test_all_work_that_changes_something_asks_unless_it_is_said_which(tmp_path: Path) -> None:
    graph = planned(tmp_path)
    for name in ("files", "kubelet"):
        assert "x.roll.cordon.w1" in graph.nodes[f"x.roll.{name}.w1"].after_same_host
    assert "x.roll.cordon.w1" not in graph.nodes["x.roll.asked.w1"].after_same_host
    with pytest.raises(PlanError, match="nothing in the work on cp1 takes its nodes out of service"):
        planned(tmp_path, takes_out={"nothing"})


def test_steps_act_from_control_planes_but_from_their_own_only_once_it_is_proven(tmp_path: Path) -> None:
    graph = planned(tmp_path)
    assert graph.nodes["x.roll.cordon.cp2"].via == ("cp1", "cp3", "cp2")
    assert graph.nodes["x.roll.uncordon.cp2"].via == ("cp2", "cp1", "cp3")
    assert graph.nodes["x.roll.serves.w1"].via == ("cp1", "cp2", "cp3")


@pytest.mark.parametrize(
    ("wanted", "turns"),
    [
        ("", "cp1 → cp2 → cp3 → w1 → w2"),
        ("execution: {maxUnavailable: 2}", "cp1, cp2 → cp3, w1 → w2"),
        ("execution: {maxUnavailable: 60%}", "cp[1:3] → w1, w2"),
        ("execution: {maxUnavailable: 1%}", "cp1 → cp2 → cp3 → w1 → w2"),
    ],
)
def test_a_plan_says_who_is_taken_out_of_service_in_which_order(tmp_path: Path, wanted: str, turns: str) -> None:
    text = render(planned(tmp_path, wanted), PlanFormat.TREE)
    assert f"taken out of service where something changes there, in this order: {turns}\n" in text


def test_nodes_of_a_batch_are_drained_side_by_side_and_share_budgets(tmp_path: Path) -> None:
    graph = planned(tmp_path, "execution: {maxUnavailable: 3}")
    drains = [one.step for one in graph.nodes.values() if isinstance(one.step, Drained)]
    assert {one.node for one in drains} == {"cp1", "cp2", "cp3", "w1", "w2"}
    assert {one.batch for one in drains} == {("cp1", "cp2", "cp3"), ("w1", "w2")}
    assert len({one.writes() for one in drains}) == 5
    cordons = [one.step for one in graph.nodes.values() if isinstance(one.step, Cordoned)]
    assert {one.limit for one in cordons} == {3}


def test_the_only_node_is_not_drained_and_the_plan_says_so(tmp_path: Path) -> None:
    graph = planned(tmp_path, file=cluster(hosts=SINGLE))
    assert not [one for one in graph.nodes.values() if isinstance(one.step, Drained)]
    assert "out of service: cordoned, not drained (it is the only node)" in render(graph, PlanFormat.TREE)


def test_what_is_reached_with_the_last_batch_waits_for_its_end(tmp_path: Path) -> None:
    graph = planned(tmp_path, provides=(DONE,))
    assert [one.id for one in graph.nodes.values() if DONE in one.provides] == ["x.roll.uncordon.w2"]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.one_of(st.integers(1, 50), st.integers(1, 100).map(lambda share: f"{share}%")))
def test_batches_hold_every_host_once_and_never_more_than_may_be_unavailable(count: int, most: int | str) -> None:
    text = cluster(f"execution: {{maxUnavailable: {most}}}")
    with tempfile.TemporaryDirectory() as directory:
        ctx = context_of(text, Path(directory)).pipeline_context().for_module().for_task()
        hosts = [Host(name=f"h{number}", address="10.0.0.1") for number in range(count)]
        found = batches(ctx, hosts)
        size = ctx.cluster.spec.execution.unavailable_nodes(len(nodes(ctx)))
    assert [host for batch in found for host in batch] == hosts
    assert 1 <= size <= 5
    assert {len(batch) for batch in found[:-1]} <= {size}
    assert 1 <= len(found[-1]) <= size


# as the engine carries it out


FILE = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: test}}
spec:
  hosts:
    - {{name: cp1, address: 10.0.0.1}}
    - {{name: "w[1:2]", address: "10.0.0.[2:3]"}}
  roleGroups: {{etcd: [cp1], controlPlane: [cp1], worker: ["w[1:2]"]}}
{more}
"""


class Fleet(World):
    """A control plane with an API, and workers with things to make."""

    def __init__(self, *objects: Document, more: str = "") -> None:
        super().__init__("cp1", "w1", "w2")
        self.more = more
        self.cluster = Cluster(node("cp1"), node("w1"), node("w2"), *objects)
        self.out: list[str] = []
        """Which nodes were cordoned, as it happened."""
        self.most_out = 0
        plain = self.cluster.hook

        def seen(call: Any) -> Any:
            if call.method == "PATCH" and b'"unschedulable": true' in call.body.replace(b'":t', b'": t'):
                self.out.append(call.path.rpartition("/")[2])
                self.most_out = max(self.most_out, 1 + sum(self.cluster.node(name)[0] for name in self.memory))
            return plain(call)

        self.cluster.api.http.hook = seen

    def context(self, work_dir: Path, **_: Any) -> Context:
        roles = {"cp1": frozenset({"controlPlane"}), "w1": frozenset({"worker"}), "w2": frozenset({"worker"})}
        workers = {name: Mortal(self, self.memory[name]) for name in ("w1", "w2")}
        file = FILE.format(more=self.more)
        return memory_context(work_dir, {"cp1": self.cluster.api.connector, **workers}, roles=roles, cluster=file)

    @property
    def cordoned(self) -> list[str]:
        return [name for name in ("cp1", "w1", "w2") if self.cluster.node(name) != (False, "")]

    def graph(self, work_dir: Path, **more: Any) -> ExecutionGraph:
        ctx = self.context(work_dir).pipeline_context().for_module().for_task()
        return plan(ctx, ctx.hosts("worker"), **more)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.components.drain.cordon._PAUSE", 0.001)
    monkeypatch.setattr("kubexm.components.drain.proof._PAUSE", 0.001)
    monkeypatch.setattr("kubexm.components.drain.evictions._FIRST_PAUSE", 0.001)


async def carried_out(fleet: Fleet, directory: Path, graph: ExecutionGraph | None = None, **more: Any) -> Any:
    directory.mkdir(exist_ok=True)
    plan_of = graph or fleet.graph(directory / "planning")
    return await execute(fleet, plan_of, directory, **more)


class Stops:
    """Cancels the run, so many times, when a node begins to change something."""

    def __init__(self, node_id: str, times: int) -> None:
        self.cancellation = Cancellation()
        self._node, self._times = node_id, times

    def on_event(self, event: Event) -> None:
        if event.kind is EventKind.UNIT_RUNNING and event.node == self._node:
            for _ in range(self._times):
                asyncio.get_running_loop().call_later(0.05, self.cancellation.cancel)


async def test_nodes_go_out_and_back_one_after_the_other(tmp_path: Path) -> None:
    fleet = Fleet(pod("a"), pod("b", "w2"))
    result = await carried_out(fleet, tmp_path)
    assert result.status is RunStatus.SUCCEEDED
    assert fleet.out == ["w1", "w2"]
    assert fleet.cluster.evicted == ["a", "b"]
    assert not fleet.cordoned


async def test_where_nothing_is_to_be_done_nothing_is_taken_out_of_service(tmp_path: Path) -> None:
    fleet = Fleet(pod("a"), pod("b", "w2"))
    fleet.things["w1"] = {"files", "kubelet"}
    await carried_out(fleet, tmp_path)
    assert fleet.out == ["w2"]
    assert fleet.cluster.evicted == ["b"]
    assert (await carried_out(fleet, tmp_path / "again", run="r2")).status is RunStatus.SUCCEEDED
    assert fleet.out == ["w2"]


async def test_a_batch_waits_for_room_within_the_limit(tmp_path: Path) -> None:
    fleet = Fleet(more="  execution: {maxUnavailable: 2}")
    fleet.cluster.put(node("cp1", cordoned=True))
    assert (await carried_out(fleet, tmp_path)).status is RunStatus.SUCCEEDED
    assert sorted(fleet.out) == ["w1", "w2"]
    assert fleet.most_out == 2, "cp1 is out of service all the time, so there is room for one more"


async def test_a_full_limit_stops_the_roll_before_anything_is_touched(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.put(node("cp1", cordoned=True))
    result = await carried_out(fleet, tmp_path)
    assert result.status is RunStatus.FAILED
    assert not fleet.out
    assert not fleet.made


@pytest.mark.parametrize("thing", ["files", "kubelet"])
async def test_failed_work_leaves_no_node_cordoned(tmp_path: Path, thing: str) -> None:
    fleet = Fleet()
    fleet.broken.add(("w1", thing))
    result = await carried_out(fleet, tmp_path)
    assert result.status is RunStatus.FAILED
    assert fleet.out == ["w1"]
    assert not fleet.cordoned


async def test_a_failed_drain_is_uncordoned_and_the_work_is_not_done(tmp_path: Path) -> None:
    fleet = Fleet(pod("lone", owner=""))
    result = await carried_out(fleet, tmp_path)
    assert result.status is RunStatus.FAILED
    assert fleet.out == ["w1"]
    assert not fleet.cordoned
    assert not fleet.made


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["cordon", "drain", "kubelet", "uncordon"])
async def test_a_cancelled_run_leaves_no_node_cordoned(tmp_path: Path, name: str, times: int) -> None:
    web = budget(allowed=0 if times == 2 else 1, healthy=2)
    fleet = Fleet(pod("a"), web)
    stops = Stops(f"x.roll.{name}.w1", times)
    if times == 2 and name in ("kubelet", "uncordon"):
        web["status"]["disruptionsAllowed"] = 1
    await carried_out(fleet, tmp_path, observers=(stops,), cancellation=stops.cancellation)
    assert fleet.out or name == "cordon", "it may be stopped before its patch is sent"
    assert not fleet.cordoned


@pytest.mark.parametrize("resume", [True, False])
async def test_what_a_killed_run_left_cordoned_the_next_one_puts_back(tmp_path: Path, resume: bool) -> None:
    fleet = Fleet()
    graph = fleet.graph(tmp_path / "planning")
    fleet.die_at, fleet.die_after = 1, True  # right after the second thing was made on w1
    with pytest.raises(Died):
        await carried_out(fleet, tmp_path / "run", graph)
    assert fleet.cordoned == ["w1"]
    fleet.die_at = -1
    directory = tmp_path / ("run" if resume else "next")
    result = await carried_out(fleet, directory, graph, resume=resume, run="r1" if resume else "r2")
    assert result.status is RunStatus.SUCCEEDED
    assert not fleet.cordoned
    assert fleet.made["w1", "kubelet"] == 1


async def test_a_node_that_an_administrator_cordoned_stays_so(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.put(node("w1", cordoned=True))
    result = await carried_out(fleet, tmp_path)
    assert fleet.made["w1", "kubelet"] == 1
    assert fleet.cordoned == ["w1"]
    assert result.status is RunStatus.FAILED, "w2 must wait until w1 is back"
    fleet.cluster.put(node("w1"))
    assert (await carried_out(fleet, tmp_path / "again", run="r2")).status is RunStatus.SUCCEEDED
