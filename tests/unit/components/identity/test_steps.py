"""The UID is made once; a host's mark is merged, never taken over from another cluster."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.identity import CA_FINGERPRINT, CLUSTER_UID, ClusterIdentified, HostMarked
from kubexm.errors import StepError
from kubexm.plan.codec import decode, encode
from kubexm.runner import ClusterMarker, Facts
from tests.unit.step.bench import Bench

UID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return known(Bench.make(tmp_path))


def known(bench: Bench) -> Bench:
    bench.context.caches.publish("pki.identity.uid", CLUSTER_UID, UID, "")
    bench.context.caches.publish("pki.authorities.made", CA_FINGERPRINT, "sha256:aa", "")
    (bench.context.work_dir.path / "uid").write_text(UID + "\n")
    return bench


def mark(bench: Bench) -> dict[str, object]:
    found = json.loads((bench.root / "state" / "cluster.json").read_text())
    assert isinstance(found, dict)
    return found


def marked(bench: Bench, **changes: object) -> None:
    content = {"uid": UID, "name": "test", "caFingerprint": "sha256:aa", "roles": [], "details": {}, **changes}
    (bench.root / "state").mkdir(exist_ok=True)
    (bench.root / "state" / "cluster.json").write_text(json.dumps(content))


async def test_a_uid_is_made_once_and_kept(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    step = ClusterIdentified(cluster="test")
    await bench.reach(step)
    path = bench.context.work_dir.path / "uid"
    first = path.read_text()
    assert len(first.strip()) == 36
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await bench.check(step)).values == {CLUSTER_UID: first.strip()}
    assert bench.connector.commands == [], "it is the work directory's alone"


async def test_the_uid_of_the_hosts_is_taken_over_by_an_empty_work_directory(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    await bench.reach(ClusterIdentified(cluster="test", found=UID))
    assert bench.context.work_dir.cluster_uid == UID


async def test_a_work_directory_of_another_cluster_is_refused(bench: Bench) -> None:
    with pytest.raises(StepError, match="another cluster of the name test") as caught:
        await bench.check(ClusterIdentified(cluster="test", found="0000"))
    assert "--work-dir" in caught.value.hint


async def test_marks_merge(bench: Bench) -> None:
    await bench.reach(HostMarked(cluster="test"))
    expected = {"uid": UID, "name": "test", "caFingerprint": "sha256:aa", "roles": [], "details": {}, "layout": 1}
    assert mark(bench) == expected
    await bench.reach(HostMarked(cluster="test", role="etcd"))
    await bench.reach(HostMarked(cluster="test", role="controlPlane"))
    assert mark(bench)["roles"] == ["controlPlane", "etcd"]
    assert (await bench.check(HostMarked(cluster="test"))).satisfied


async def test_what_facts_say_costs_no_read(tmp_path: Path) -> None:
    marker = ClusterMarker(uid=UID, name="test", ca_fingerprint="sha256:aa", roles=("etcd",))
    bench = known(Bench.make(tmp_path, facts=replace(Facts.assumed(), marker=marker)))
    assert (await bench.check(HostMarked(cluster="test", role="etcd"))).satisfied
    assert bench.connector.commands == []
    assert not (await bench.check(HostMarked(cluster="test", role="worker"))).satisfied
    assert len(bench.connector.commands) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uid": "other"}, "belongs to another cluster: test \\(other\\)"),
        ({"name": "prod"}, "belongs to another cluster: prod"),
        ({"caFingerprint": "sha256:bb", "roles": ["worker"]}, "made with another CA"),
    ],
)
async def test_another_clusters_host_is_never_touched(bench: Bench, changes: dict[str, object], message: str) -> None:
    marked(bench, **changes)
    before = mark(bench)
    with pytest.raises(StepError, match=message):
        await bench.check(HostMarked(cluster="test"))
    with pytest.raises(StepError, match=message):
        await bench.run(HostMarked(cluster="test", role="etcd"))
    assert mark(bench) == before
    assert not any(command.changes for command in bench.connector.commands)


async def test_a_ca_lost_before_anything_was_brought_up_is_replaced_on_the_mark(bench: Bench) -> None:
    marked(bench, caFingerprint="sha256:bb")
    await bench.reach(HostMarked(cluster="test"))
    assert mark(bench)["caFingerprint"] == "sha256:aa"


async def test_an_unreadable_mark_is_refused(bench: Bench) -> None:
    (bench.root / "state").mkdir()
    (bench.root / "state" / "cluster.json").write_text("{half")
    with pytest.raises(StepError, match="cannot be read"):
        await bench.check(HostMarked(cluster="test"))


async def test_without_knowing_the_cluster_nothing_is_said(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    check = await bench.check(HostMarked(cluster="test"))
    assert check.satisfied is False
    assert bench.connector.commands == []


async def test_rollback_takes_off_what_this_run_put_on(bench: Bench) -> None:
    marked(bench, roles=["worker"])
    step = HostMarked(cluster="test", role="etcd")
    await bench.reach(step)
    await bench.rollback(step)
    assert mark(bench)["roles"] == ["worker"]
    await bench.rollback(HostMarked(cluster="test"))
    assert mark(bench)["roles"] == ["worker"], "a host with a role stays the cluster's"
    await bench.rollback(HostMarked(cluster="test", role="worker"))
    await bench.rollback(HostMarked(cluster="test"))
    assert not (bench.root / "state" / "cluster.json").exists()


def test_they_are_plain_data() -> None:
    for step in (HostMarked(cluster="test", role="etcd"), ClusterIdentified(cluster="test", found=UID)):
        assert decode(encode(step), type(step)) == step
    assert HostMarked(cluster="test").consumes() == (CLUSTER_UID, CA_FINGERPRINT)
