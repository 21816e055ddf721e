"""The plan of etcd: members start together in a new cluster, one at a time in one that is there; quorum comes last."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.components.etcd import Etcd, backup
from kubexm.components.etcd.external import ExternalEtcdHealthy
from kubexm.components.etcd.joining import MemberAdmitted
from kubexm.components.etcd.serving import MemberRunning, MemberServing
from kubexm.components.host_files import FilesPresent
from kubexm.components.identity import CA_FINGERPRINT, CLUSTER_UID, HostMarked
from kubexm.components.milestones import ETCD_QUORUM, HOST_READY, PKI_ISSUED
from kubexm.errors import PlanError
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment, ExecutionGraph
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.step import FileAbsent, ServiceRunning, ServiceStopped
from kubexm.task import FragmentBuilder, Task
from tests.unit.components.around import Reached, cluster, context_of, marked

MEMBERS = ("cp1", "cp2", "cp3")
EXTERNAL = """\
etcd:
  type: external
  external:
    endpoints: ["https://10.0.0.5:2379", "https://10.0.0.6:2379"]
    caFile: ./ca.crt
    certFile: ./client.crt
    keyFile: ./client.key
"""


class _Before(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("before.all")
        keys = (CLUSTER_UID, CA_FINGERPRINT)
        g.add("pki", Reached(name="pki", keys=keys), on=ctx.control_node, provides=PKI_ISSUED)
        g.add("host", Reached(name="host"), on=ctx.hosts(), provides=HOST_READY)
        return g.build()


class Before(Module):
    """What etcd waits for."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Before(),)


class _After(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("after.all")
        g.add("api", Reached(name="api"), on=ctx.hosts("controlPlane"), needs=ETCD_QUORUM)
        return g.build()


class After(Module):
    """What waits for etcd."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_After(),)


def plan(tmp_path: Path, text: str = "", **facts: Any) -> ExecutionGraph:
    context = context_of(text or cluster(), tmp_path, facts)
    graph = link(Before, Etcd, After).graph(context.pipeline_context(), name="test")
    assert ExecutionGraph.from_dict(json.loads(json.dumps(graph.to_dict()))).to_json() == graph.to_json()
    return graph


def upstream(graph: ExecutionGraph, name: str) -> set[str]:
    """Everything a node waits for, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        node = graph.nodes[waiting.pop()]
        for other in {*node.after, *node.after_same_host} - found:
            found.add(other)
            waiting.append(other)
    return found


def roles(*names: str) -> dict[str, Any]:
    return {name: {"marker": marked("etcd")} for name in names}


def test_members_of_a_new_cluster_start_without_waiting_for_each_other(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    start = graph.nodes["etcd.form.start"]
    assert start.hosts == MEMBERS
    assert isinstance(start.step, MemberRunning)
    assert start.step.writes() == {"unit:etcd.service"}, "nothing of the cluster, or they would start one by one"
    assert start.after == ()
    prepared = {"founders", "pki", "binary", "unit", "data"}
    assert {f"etcd.form.{name}" for name in prepared} <= upstream(graph, "etcd.form.start")
    for name in ("pki", "binary", "unit", "data"):
        waits = graph.nodes[f"etcd.form.{name}"].after
        assert waits in ((), ("before.all.pki",)), "the PKI is made once, everything else is the host's own"
    assert graph.nodes["etcd.form.binary"].after_same_host == (), "what is only sent waits for nothing"


def test_quorum_is_that_every_member_serves(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    serving = graph.nodes["etcd.form.serving"]
    assert serving.hosts == MEMBERS
    assert serving.after == ("etcd.form.start",)
    assert graph.nodes["after.all.api"].after == ("etcd.form.serving",)
    assert isinstance(serving.step, MemberServing)
    assert serving.step.writes() == frozenset(), "members are waited for side by side"
    mark = graph.nodes["etcd.form.marked"]
    assert mark.step == HostMarked(cluster="prod", role="etcd")
    assert mark.after == ("etcd.form.serving",), "a cluster is one when all its members are"
    assert graph.nodes["etcd.form.sealed"].after_same_host == ("etcd.form.serving",)


def test_data_is_looked_at_before_its_directory_is_touched(tmp_path: Path) -> None:
    for graph, guard, data in (
        (plan(tmp_path / "a"), "etcd.form.founders", "etcd.form.data"),
        (plan(tmp_path / "b", **roles(*MEMBERS)), "etcd.keep.admitted.cp2", "etcd.keep.data.cp2"),
    ):
        assert guard in upstream(graph, data)


def test_members_of_a_cluster_that_is_there_are_kept_one_at_a_time(tmp_path: Path) -> None:
    graph = plan(tmp_path, **roles(*MEMBERS))
    assert not [name for name in graph.nodes if name.startswith("etcd.form")]
    for earlier, later in (("cp1", "cp2"), ("cp2", "cp3")):
        for name in ("pki", "unit", "admitted", "start"):
            assert f"etcd.keep.serving.{earlier}" in upstream(graph, f"etcd.keep.{name}.{later}")
    start = graph.nodes["etcd.keep.start.cp1"].step
    assert isinstance(start, MemberRunning)
    assert dict(start.urls)["cp3"] == "https://10.0.0.13:2379"
    quorum = graph.nodes["etcd.keep.quorum"]
    assert quorum.hosts == MEMBERS
    assert "etcd.keep.serving.cp3" in upstream(graph, quorum.id)
    assert graph.nodes["after.all.api"].after == (quorum.id,)


def test_empty_members_join_after_those_that_are_there(tmp_path: Path) -> None:
    graph = plan(tmp_path, **roles("cp2", "cp3"))
    assert "etcd.keep.serving.cp3" in upstream(graph, "etcd.keep.admitted.cp1")
    assert "etcd.keep.serving.cp1" in upstream(graph, "after.all.api")
    admitted = graph.nodes["etcd.keep.admitted.cp1"].step
    assert isinstance(admitted, MemberAdmitted)
    assert admitted.others == (("cp2", "https://10.0.0.12:2379"), ("cp3", "https://10.0.0.13:2379"))


def test_a_mark_of_the_host_alone_makes_no_cluster(tmp_path: Path) -> None:
    graph = plan(tmp_path, cp1={"marker": marked()}, cp2={"marker": marked()})
    assert "etcd.form.start" in graph.nodes


def test_a_cluster_without_its_data_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="none of its hosts for etcd holds data") as caught:
        plan(tmp_path, cp1={"marker": marked("controlPlane")})
    assert "restore a snapshot" in caught.value.hint


def test_an_etcd_in_static_pods_is_not_ours(tmp_path: Path) -> None:
    context = context_of(cluster("etcd: {type: kubeadm}"), tmp_path)
    assert not Etcd().fragment(context.pipeline_context().for_module())


def test_of_an_external_etcd_only_its_health_is_asked(tmp_path: Path) -> None:
    text = cluster(EXTERNAL).replace('    etcd: ["cp[1:3]"]\n', "")
    graph = plan(tmp_path, text)
    ours = [name for name in graph.nodes if name.startswith("etcd.")]
    assert ours == [
        "etcd.external.pki",
        "etcd.external.client",
        "etcd.external.client-active",
        "etcd.external.healthy",
    ]
    healthy = graph.nodes["etcd.external.healthy"]
    assert healthy.hosts == ("cp1",)
    assert healthy.step == ExternalEtcdHealthy(endpoints=("https://10.0.0.5:2379", "https://10.0.0.6:2379"))
    assert graph.nodes["after.all.api"].after == ("etcd.external.healthy",)


def test_backups_have_a_timer_where_a_schedule_says_when(tmp_path: Path) -> None:
    graph = plan(tmp_path / "a", cluster('etcd: {backup: {schedule: "0 3 * * *"}}'))
    running = ServiceRunning(unit="etcd-backup.timer", inputs=(backup.SERVICE_FILE,))
    assert graph.nodes["etcd.backup.running"].step == running
    assert _written(graph) == {backup.SCRIPT, backup.SERVICE_FILE, backup.TIMER_FILE}


def test_a_member_takes_a_snapshot_when_asked_though_no_schedule_says_when(tmp_path: Path) -> None:
    graph = plan(tmp_path)
    assert _written(graph) == {backup.SCRIPT, backup.SERVICE_FILE}
    assert graph.nodes["etcd.backup.directory"].hosts, "or the unit, which may write nowhere else, would not start"
    absent = [node.step for node in graph.nodes.values() if isinstance(node.step, FileAbsent)]
    assert absent == [FileAbsent(path=backup.TIMER_FILE)], "a schedule that was taken out takes its timer along"
    assert graph.nodes["etcd.backup.stopped"].step == ServiceStopped(unit="etcd-backup.timer")


def _written(graph: ExecutionGraph) -> set[PurePosixPath]:
    step = graph.nodes["etcd.backup.files"].step
    assert isinstance(step, FilesPresent)
    return {file.path for file in step.files}
