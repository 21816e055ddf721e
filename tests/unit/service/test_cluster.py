"""The service end to end on this machine: plan, save, apply, run, resume, exclude, list."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import JournalError, LeaseHeldError, PlanError, StalePlanError, UsageError
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph, Prediction, RunSpec, RunStatus, State
from kubexm.runner.facts.model import ClusterMarker
from kubexm.runtime import ClusterLease, Context, RuntimeBuilder
from kubexm.service import ClusterService, RunFiles, RunInfo, ServiceOptions, Watch
from tests.unit.runtime.clusters import cluster_file, needs_root
from tests.unit.service.work import CLUSTER

pytestmark = needs_root


@pytest.fixture
def service() -> ClusterService:
    return ClusterService()


def only_run(service: ClusterService, cluster: Path) -> RunInfo:
    (info,) = service.runs(cluster)
    return info


async def test_a_run_is_done_kept_and_a_second_one_changes_nothing(
    service: ClusterService, cluster: Path, root: Path
) -> None:
    (root / "permit").touch()
    result = await service.run(cluster, RunSpec.of("work", root=str(root)))
    assert result.status is RunStatus.SUCCEEDED
    assert (root / "second").read_text() == "two"
    info = only_run(service, cluster)
    assert (info.id, info.status, info.pipeline, info.cluster) == (result.run, "succeeded", "work", "demo")
    assert info.states == {"succeeded": 2, "satisfied": 1}
    assert (info.units, info.dry_run) == (3, False)
    assert info.ended is not None
    assert service.run_files(result.run, cluster).process() is None
    again = await service.run(cluster, RunSpec.of("work", root=str(root)))
    assert not again.changed
    assert [run.id for run in service.runs(cluster)] == [result.run, again.run]


async def test_a_failed_run_is_resumed_with_the_graph_it_began_with(
    service: ClusterService, cluster: Path, root: Path
) -> None:
    failed = await service.run(cluster, RunSpec.of("work", root=str(root)))
    assert failed.status is RunStatus.FAILED
    assert failed.nodes["work.files.second"].state is State.BLOCKED
    (root / "permit").touch()
    files = service.run_files(failed.run, cluster)
    before = files.graph().digest
    done = await service.resume(files.path)
    assert done.status is RunStatus.SUCCEEDED
    assert (done.run, files.graph().digest) == (failed.run, before)
    kinds = [event.kind for event in files.events()]
    assert kinds.count(EventKind.RUN_STARTED) == kinds.count(EventKind.RUN_RESUMED) == 1
    assert [event.seq for event in files.events()] == list(range(1, len(kinds) + 1))
    assert only_run(service, cluster).status == "succeeded"
    logs = {log.node: log.state for log in files.step_logs()}
    assert logs == {
        "work.files.first": "succeeded",
        "work.files.gate": "satisfied",
        "work.files.second": "succeeded",
    }


async def test_a_dry_run_changes_nothing_takes_no_lease_and_is_not_resumed(
    service: ClusterService, cluster: Path, root: Path, tmp_path: Path
) -> None:
    result = await service.run(cluster, RunSpec.of("work", dry_run=True, root=str(root)))
    assert result.changed
    assert result.nodes["work.files.first"].hosts["n1"].prediction is Prediction.CHANGE
    assert not list(root.iterdir())
    assert not (tmp_path / "state" / "lease").exists()
    with pytest.raises(UsageError, match="was a dry run"):
        await service.resume(service.run_files(result.run, cluster).path)


async def test_who_finds_the_cluster_taken_is_told_and_leaves_nothing_behind(
    service: ClusterService, cluster: Path, root: Path
) -> None:
    ctx = await RuntimeBuilder(cluster).build()
    lease = ClusterLease(ctx, "other-run", lambda error: None)
    await lease.acquire()
    try:
        with pytest.raises(LeaseHeldError, match="run other-run"):
            await service.run(cluster, RunSpec.of("work", root=str(root)))
    finally:
        await lease.release()
        await ctx.close()
    assert service.runs(cluster) == []
    assert not list(root.iterdir())


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes when assets are looked up, which takes seconds."""
    looked: list[str] = []

    async def stocked(ctx: Context, *_: object, **__: object) -> Context:
        looked.append(ctx.cluster.name)
        return ctx

    monkeypatch.setattr("kubexm.service.cluster.stocked", stocked)
    return looked


async def test_a_second_run_is_refused_before_anything_is_looked_up(
    service: ClusterService, cluster: Path, root: Path, stock: list[str]
) -> None:
    ctx = await RuntimeBuilder(cluster).build()
    lease = ClusterLease(ctx, "other-run", lambda error: None)
    await lease.acquire()
    try:
        with pytest.raises(LeaseHeldError, match="run other-run"):
            await service.run(cluster, RunSpec.of("marked", root=str(root)))
    finally:
        await lease.release()
        await ctx.close()
    assert stock == []


@pytest.mark.parametrize("dies", [False, True])
async def test_a_plan_stands_on_facts_that_hold_under_the_lease(
    service: ClusterService, cluster: Path, root: Path, stock: list[str], monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    acquire = ClusterLease.acquire
    overtaken: list[bool] = []

    async def late(self: ClusterLease) -> None:
        """Another run marks the hosts and ends, or dies, after the facts of this one were gathered."""
        if not overtaken:
            overtaken.append(True)
            other = await RuntimeBuilder(cluster).build()
            for name in ("n1", "n2"):
                host = other.host_runtimes[name]
                lease = await host.lease.acquire(owner="other", run="other-run", ttl=0)
                await host.marker.write(ClusterMarker(uid="u", name="marked-meanwhile"))
                if not dies:
                    await host.lease.release(lease)
            await other.close()
        await acquire(self)

    monkeypatch.setattr(ClusterLease, "acquire", late)
    before = time.time()
    result = await service.run(cluster, RunSpec.of("marked", root=str(root)))
    assert result.status is RunStatus.SUCCEEDED
    assert [(root / f"mark-{name}").read_text() for name in ("n1", "n2")] == ["marked-meanwhile"] * 2
    assert before <= result.started, "connecting and planning are part of what a run takes"
    first = next(iter(service.run_files(result.run, cluster).events()))
    assert result.started < first.time
    # Where nobody was in between, facts are gathered once.
    monkeypatch.delattr(RuntimeBuilder, "again")
    assert (await service.run(cluster, RunSpec.of("marked", root=str(root)))).status is RunStatus.SUCCEEDED


async def test_a_run_that_is_held_is_not_resumed(service: ClusterService, cluster: Path, root: Path) -> None:
    failed = await service.run(cluster, RunSpec.of("work", root=str(root)))
    files = service.run_files(failed.run, cluster)
    with files.held(), pytest.raises(UsageError, match=r"is still running \(process \d+\)") as caught:
        await service.resume(files.path)
    assert "runs cancel" in caught.value.hint


async def test_of_two_who_resume_at_once_one_goes_on(service: ClusterService, cluster: Path, root: Path) -> None:
    failed = await service.run(cluster, RunSpec.of("work", root=str(root)))
    (root / "permit").touch()
    path = service.run_files(failed.run, cluster).path
    outcomes = await asyncio.gather(service.resume(path), service.resume(path), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, UsageError)]
    done = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(refused) == len(done) == 1
    assert done[0].status is RunStatus.SUCCEEDED, "the other one's lease was not taken from it"


async def test_an_edit_guards_a_resume_and_connection_settings_do_not(
    service: ClusterService, cluster: Path, root: Path
) -> None:
    failed = await service.run(cluster, RunSpec.of("work", root=str(root)))
    path = service.run_files(failed.run, cluster).path
    cluster_file(cluster.parent, CLUSTER + "\nkubernetes: {clusterName: other}")
    with pytest.raises(
        StalePlanError, match=r"has changed since run .*\n  spec\.kubernetes\.clusterName: was "
    ) as caught:
        await service.resume(path)
    assert "always safe" in caught.value.hint
    cluster_file(cluster.parent, CLUSTER + "\nglobal: {connectionTimeout: 7s}")
    (root / "permit").touch()
    assert (await service.resume(path)).status is RunStatus.SUCCEEDED


async def test_a_saved_plan_is_applied_exactly(
    service: ClusterService, cluster: Path, root: Path, tmp_path: Path
) -> None:
    (root / "permit").touch()
    planned = await service.plan(cluster, RunSpec.of("work", root=str(root), skip=["work.files.second"]))
    assert not planned.offline
    assert not planned.unreached
    planned.save(tmp_path / "plan.kxp")
    assert service.runs(cluster) == []
    result = await service.apply(tmp_path / "plan.kxp")
    assert result.nodes["work.files.second"].state is State.EXCLUDED
    assert service.run_files(result.run, cluster).graph().digest == planned.graph.digest
    moved = cluster.rename(tmp_path / "moved.yaml")
    again = await service.apply(tmp_path / "plan.kxp", file=moved)
    assert service.run_files(again.run, moved).record().file == str(moved), "a resume looks where it is now"


async def test_a_saved_plan_refuses_what_has_changed(
    service: ClusterService, cluster: Path, root: Path, tmp_path: Path
) -> None:
    planned = await service.plan(cluster, RunSpec.of("work", root=str(root)))
    replace(planned.saved, reads=tuple(replace(read, value="plan9") for read in planned.saved.reads)).save(
        tmp_path / "plan.kxp"
    )
    cluster_file(cluster.parent, CLUSTER + "\nkubernetes: {clusterName: other}")
    with pytest.raises(StalePlanError) as caught:
        await service.apply(tmp_path / "plan.kxp")
    lines = caught.value.message.splitlines()
    assert lines[0] == "this plan no longer fits:"
    assert lines[1].startswith("  spec.kubernetes.clusterName: was ")
    assert lines[2].startswith('  n1: os.family was "plan9", is ')
    assert lines[3].startswith('  n2: os.family was "plan9", is ')
    assert service.runs(cluster) == []


async def test_offline_a_plan_needs_no_host_and_is_the_same_each_time(
    service: ClusterService, cluster: Path, root: Path
) -> None:
    one = await service.plan(cluster, RunSpec.of("work", root=str(root)), offline=True)
    two = await service.plan(cluster, RunSpec.of("work", root=str(root)), offline=True)
    assert one.offline
    assert one.graph.to_json() == two.graph.to_json()


async def test_what_is_not_required_or_not_there_is_said(service: ClusterService, cluster: Path, root: Path) -> None:
    with pytest.raises(UsageError, match="idle: there is nothing to do for demo"):
        await service.run(cluster, RunSpec.of("idle", root=str(root)))
    with pytest.raises(UsageError, match="there is no pipeline 'wrk'") as caught:
        await service.run(cluster, RunSpec.of("wrk", root=str(root)))
    assert caught.value.hint == "did you mean `work`?"
    with pytest.raises(UsageError, match="there is no run 'x' here"):
        service.run_files("x", cluster)


async def test_parts_of_a_pipeline_by_name(service: ClusterService, cluster: Path, root: Path) -> None:
    planned = await service.plan(cluster, RunSpec.of("work", only=["work.files.first"], root=str(root)))
    states = {node.id: node.excluded for node in planned.graph.nodes.values()}
    assert states == {
        "work.files.first": "",
        "work.files.gate": "not named by --only",
        "work.files.second": "not named by --only",
    }
    with pytest.raises((UsageError, PlanError), match="selects nothing"):
        await service.plan(cluster, RunSpec.of("work", only=["work.flies"], root=str(root)))


async def test_facts_of_some_hosts(service: ClusterService, cluster: Path) -> None:
    report = await service.facts(cluster, roles=["worker"])
    assert set(report.facts) == {"n2"}
    assert not report.unreached


class Watching:
    """An observer that takes in the plan, and one that cannot."""

    def __init__(self, *, broken: bool) -> None:
        self.graphs: list[ExecutionGraph] = []
        self.events: list[Event] = []
        self._broken = broken

    def planned(self, graph: ExecutionGraph) -> None:
        assert not self.events
        self.graphs.append(graph)
        if self._broken:
            raise RuntimeError("no")

    def on_event(self, event: Event) -> None:
        self.events.append(event)


async def test_observers_see_the_plan_first_and_cannot_stop_a_run(
    cluster: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "permit").touch()
    good, bad = Watching(broken=False), Watching(broken=True)
    quiet = ClusterService(ServiceOptions(logger=logging.getLogger("kubexm.test")))
    result = await quiet.run(cluster, RunSpec.of("work", root=str(root), parallel=3), Watch(observers=(bad, good)))
    assert result.status is RunStatus.SUCCEEDED
    assert len(good.graphs) == 1
    assert good.events[-1].kind is EventKind.RUN_ENDED
    assert "an observer failed" in caplog.text


async def test_a_run_that_cannot_be_read_does_not_hide_the_others(
    service: ClusterService, cluster: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "permit").touch()
    one = await service.run(cluster, RunSpec.of("work", root=str(root)))
    two = await service.run(cluster, RunSpec.of("work", root=str(root)))
    broken = service.run_files(one.run, cluster)
    broken.journal.write_bytes(b"rubbish\n" + broken.journal.read_bytes())
    assert [run.id for run in service.runs(cluster)] == [two.run]
    assert "journal:1: this line of the journal is damaged" in caplog.text
    with pytest.raises(JournalError, match="damaged"):
        await service.resume(broken.path)
    assert isinstance(broken, RunFiles)


async def test_runs_are_found_below_the_working_directory_too(
    service: ClusterService, cluster: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await service.run(cluster, RunSpec.of("work", root=str(root)))
    monkeypatch.chdir(cluster.parent)
    assert [run.id for run in service.runs()] == [result.run]
    run = service.find(result.run)
    assert run.info().status == "failed"
    assert run.log_text("work.files.first", "n1")
    assert run.log_text("work.files.second", "n2") == ""
    assert run.resume_words() == ("kubexm", "runs", "resume", result.run)
    with pytest.raises(UsageError, match="is not running"):
        run.cancel()
    monkeypatch.chdir("/")
    assert service.runs() == []
