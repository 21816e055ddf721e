"""Cordoning, draining, proving and uncordoning nodes, on an API that refuses what it does not know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.drain import cordon, evictions, proof
from kubexm.components.drain.cordon import BACK_IN_SERVICE, Cordoned, Uncordoned
from kubexm.components.drain.evictions import Drained
from kubexm.components.drain.proof import NodeServes, Soaked
from kubexm.errors import ApiUnavailable, StepError
from kubexm.runtime import StepContext
from tests.http_stub import Answer, Call
from tests.unit.components.drain.objects import Document, budget, node, pod
from tests.unit.components.kube_api import KubeApi, changed
from tests.unit.components.kube_http import status

CORDON = Cordoned(operation="create", limit=1)
UNCORDON = Uncordoned(operation="create")
DRAIN = Drained(node="w1", batch=("w1",))
MINE, DEAD, OTHER = "create/run-1", "create/run-0", "upgrade/run-7"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cordon, "_PAUSE", 0.001)
    monkeypatch.setattr(proof, "_PAUSE", 0.001)
    monkeypatch.setattr(evictions, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(evictions, "_LONGEST_PAUSE", 0.001)


class Cluster:
    """An API with objects, which evicts pods as the real one does: by what budgets allow."""

    def __init__(self, *objects: Document) -> None:
        self.api = KubeApi("cp1")
        self.put(*objects)
        self.api.http.hook = self.hook
        self.evicted: list[str] = []
        self.healthy = True
        """Kubelets answer the API server."""

    def put(self, *objects: Document) -> None:
        for one in objects:
            group, _, _ = one["apiVersion"].rpartition("/")
            place = one["metadata"].get("namespace", "")
            self.api.objects[group, one["kind"], place, one["metadata"]["name"]] = one

    def context(self, work_dir: Path, subject: str = "w1") -> StepContext:
        ctx = self.api.context(work_dir)
        ctx.subject = subject
        return ctx

    def node(self, name: str = "w1") -> tuple[bool, str]:
        """Whether it is cordoned, and by whom of kubexm."""
        found = self.api.objects["", "Node", "", name]
        return bool(found["spec"].get("unschedulable")), found["metadata"]["annotations"].get("kubexm.io/cordoned", "")

    @property
    def patches(self) -> list[Any]:
        return [json.loads(call.body) for call in self.api.http.calls if call.method == "PATCH"]

    def hook(self, call: Call) -> Answer | None:
        if call.path.endswith("/proxy/healthz"):
            return Answer(body=b"ok") if self.healthy else status(503, "connection refused")
        if not call.path.endswith("/eviction"):
            return None
        name = call.path.split("/")[-2]
        assert json.loads(call.body)["deleteOptions"] == {"preconditions": {"uid": f"uid-{name}"}}
        labels = self.api.objects["", "Pod", "default", name]["metadata"]["labels"]
        for one in [found for key, found in self.api.objects.items() if key[1] == "PodDisruptionBudget"]:
            if labels["app"] == one["spec"]["selector"]["matchLabels"]["app"]:
                if not one["status"]["disruptionsAllowed"]:
                    causes = [{"reason": "DisruptionBudget", "message": "it needs 2 healthy pods"}]
                    return status(429, "Cannot evict pod", "TooManyRequests", causes)
                one["status"]["disruptionsAllowed"] -= 1
        self.evicted.append(name)
        del self.api.objects["", "Pod", "default", name]
        return Answer(body=b'{"kind": "Status", "status": "Success"}')


async def refused(ctx: StepContext, step: Any) -> str:
    with pytest.raises(StepError) as caught:
        await changed(ctx, step)
    return caught.value.message


# cordon


async def test_a_node_is_cordoned_with_a_note_in_one_patch(tmp_path: Path) -> None:
    cluster = Cluster(node("w1"), node("w2"))
    ctx = cluster.context(tmp_path)
    assert (await CORDON.precheck(ctx)).satisfied is False
    await changed(ctx, CORDON)
    assert cluster.node() == (True, MINE)
    assert len(cluster.patches) == 1
    assert (await CORDON.precheck(ctx)).satisfied


async def test_a_node_somebody_else_cordoned_stays_as_it_is(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True), node("w2", cordoned=True, note=OTHER))
    for name in ("w1", "w2"):
        ctx = cluster.context(tmp_path, name)
        before = cluster.node(name)
        assert (await CORDON.precheck(ctx)).satisfied
        assert (await UNCORDON.precheck(ctx)).satisfied
        await changed(ctx, UNCORDON)
        assert cluster.node(name) == before
    assert not cluster.patches


async def test_a_node_of_another_operation_is_reported(tmp_path: Path) -> None:
    ctx = Cluster(node("w1", cordoned=True, note=OTHER)).context(tmp_path)
    assert (await UNCORDON.precheck(ctx)).satisfied
    assert ctx.warnings == [f"node w1 stays cordoned: {OTHER} did that. Run that operation again to finish it"]


async def test_a_later_run_takes_over_what_a_dead_one_left(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True, note=DEAD), node("w2"))
    ctx = cluster.context(tmp_path)
    assert (await CORDON.precheck(ctx)).reason == f"taken over from {DEAD}"
    await changed(ctx, CORDON)
    assert cluster.node() == (True, MINE)
    await changed(ctx, UNCORDON)
    assert cluster.node() == (False, "")
    assert (await UNCORDON.precheck(ctx)).satisfied


async def test_what_a_dead_run_left_is_uncordoned_also_without_work(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True, note=DEAD))
    ctx = cluster.context(tmp_path)
    assert (await UNCORDON.precheck(ctx)).reason == f"cordoned by {DEAD}"
    await changed(ctx, UNCORDON)
    assert cluster.node() == (False, "")


@pytest.mark.parametrize("blocker", [node("w2", cordoned=True), node("w2", cordoned=True, note=OTHER)])
async def test_cordoned_nodes_count_whoever_did_it(tmp_path: Path, blocker: Document) -> None:
    cluster = Cluster(node("w1"), blocker, node("w3"))
    message = await refused(cluster.context(tmp_path), CORDON)
    assert "node w1 cannot be taken out of service: execution.maxUnavailable allows 1 unavailable node" in message
    assert "w2 is cordoned by" in message
    assert cluster.node() == (False, "")
    await changed(cluster.context(tmp_path), Cordoned(operation="create", limit=2))
    assert cluster.node() == (True, MINE)


async def test_nodes_that_are_not_ready_count_and_are_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(node("w1"), node("w2", ready=False))
    message = await refused(cluster.context(tmp_path), Cordoned(operation="create", limit=1, patience=0.0))
    assert message.endswith("and w2 is not Ready")

    async def heal() -> None:
        await asyncio.sleep(0.02)
        cluster.put(node("w2"))

    healing = asyncio.ensure_future(heal())
    await changed(cluster.context(tmp_path), CORDON)
    await healing
    assert cluster.node() == (True, MINE)


async def test_a_node_that_is_out_of_service_anyway_costs_nothing(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", ready=False), node("w2", ready=False), node("w3", cordoned=True))
    await changed(cluster.context(tmp_path), CORDON)
    assert cluster.node() == (True, MINE)


async def test_a_node_of_the_same_run_is_waited_for_without_end(tmp_path: Path) -> None:
    cluster = Cluster(node("w1"), node("w2", cordoned=True, note=MINE))
    step = Cordoned(operation="create", limit=1, patience=0.0)
    waiting = asyncio.ensure_future(changed(cluster.context(tmp_path), step))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert cluster.node() == (False, "")
    await changed(cluster.context(tmp_path / "other", "w2"), UNCORDON)
    await waiting
    assert cluster.node() == (True, MINE)


async def test_who_cordons_in_between_keeps_the_node(tmp_path: Path) -> None:
    cluster = Cluster(node("w1"), node("w2"))
    plain = cluster.hook

    def meanwhile(call: Call) -> Answer | None:
        if call.method == "PATCH" and not cluster.node()[0]:
            cluster.put({**node("w1", cordoned=True), "metadata": {**node("w1")["metadata"], "resourceVersion": "2"}})
        return plain(call)

    cluster.api.http.hook = meanwhile
    ctx = cluster.context(tmp_path)
    await changed(ctx, CORDON)
    await changed(ctx, UNCORDON)
    assert cluster.node()[0] is True, "an administrator's cordon was undone"


async def test_a_node_that_is_not_registered_is_no_obstacle(tmp_path: Path) -> None:
    cluster = Cluster(node("w2"))
    ctx = cluster.context(tmp_path)
    for step in (CORDON, UNCORDON, DRAIN):
        assert (await step.precheck(ctx)).satisfied
        await changed(ctx, step)


async def test_without_an_api_only_work_that_may_bring_it_back_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object) -> None:
        raise ApiUnavailable("connection refused", host="cp1")

    monkeypatch.setattr(cordon, "find_state", down)
    ctx = Cluster(node("w1")).context(tmp_path)
    with pytest.raises(ApiUnavailable):
        await CORDON.precheck(ctx)
    assert (await Cordoned(operation="create", limit=1, without_api=True).precheck(ctx)).satisfied
    assert ctx.warnings == ["node w1 is not cordoned, since the API cannot be asked: connection refused"]


# drain


async def test_pods_are_evicted_and_what_belongs_to_the_node_stays(tmp_path: Path) -> None:
    cluster = Cluster(
        node("w1", cordoned=True, note=MINE),
        node("w2"),
        pod("a"),
        pod("cache", volumes=[{"name": "tmp", "emptyDir": {}}]),
        pod("net", owner="DaemonSet/net"),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
        pod("done", phase="Succeeded"),
        pod("away", "w2"),
    )
    ctx = cluster.context(tmp_path)
    check = await DRAIN.precheck(ctx)
    assert check.reason == "2 pods to evict"
    assert "loses emptyDir tmp" in check.diff
    await changed(ctx, DRAIN)
    assert sorted(cluster.evicted) == ["a", "cache"]
    assert (await DRAIN.precheck(ctx)).satisfied


async def test_a_node_that_is_not_cordoned_is_not_drained_yet(tmp_path: Path) -> None:
    assert (await DRAIN.precheck(Cluster(node("w1"), node("w2")).context(tmp_path))).satisfied is False


async def test_evictions_go_on_as_replacements_become_healthy(tmp_path: Path) -> None:
    web = budget(allowed=1)
    cluster = Cluster(node("w1", cordoned=True), node("w2"), pod("a"), pod("b"), pod("c"), web)
    plain = cluster.hook

    def recovering(call: Call) -> Answer | None:
        if call.path == "/api/v1/nodes":
            web["status"]["disruptionsAllowed"] = 1
        return plain(call)

    cluster.api.http.hook = recovering
    await changed(cluster.context(tmp_path), DRAIN)
    assert sorted(cluster.evicted) == ["a", "b", "c"]


async def test_a_budget_that_stays_exhausted_is_named_with_pod_and_owner(tmp_path: Path) -> None:
    exhausted = budget(allowed=0, healthy=2, desired=2, expected=3)
    free = pod("free", labels={"app": "db"})
    cluster = Cluster(node("w1", cordoned=True), node("w2"), pod("web-5d-a"), free, exhausted)
    message = await refused(cluster.context(tmp_path), Drained(node="w1", batch=("w1",), timeout=0.0))
    assert message == (
        "node w1 cannot be drained within 0 s:\n"
        "  pod default/web-5d-a (Deployment web): PodDisruptionBudget default/web allows no eviction: 2 of 3 pods are "
        "healthy, and it wants at least 2"
    )
    assert cluster.evicted == ["free"]


@pytest.mark.parametrize(
    "obstacle",
    [
        [pod("a"), budget(allowed=0, healthy=3, desired=3, expected=3)],
        [pod("a", owner="")],
    ],
)
async def test_what_can_never_be_evicted_stops_the_drain_before_it_begins(
    tmp_path: Path, obstacle: list[Document]
) -> None:
    cluster = Cluster(node("w1", cordoned=True), node("w2"), pod("b", labels={"app": "db"}), *obstacle)
    message = await refused(cluster.context(tmp_path), DRAIN)
    assert message.startswith("node w1 cannot be drained:\n  pod default/a")
    assert not cluster.evicted


async def test_an_unmanaged_pod_that_is_named_is_evicted(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True), node("w2"), pod("lone", owner=""))
    await changed(cluster.context(tmp_path), Drained(node="w1", batch=("w1",), force=("default/lone",)))
    assert cluster.evicted == ["lone"]


async def test_pods_that_are_being_deleted_are_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True), node("w2"), pod("slow", terminating=True))
    step = Drained(node="w1", batch=("w1",), timeout=0.0)
    assert "pod default/slow (Deployment web): is being deleted" in await refused(cluster.context(tmp_path), step)
    assert not cluster.evicted


def volumes() -> Iterator[Document]:
    for claim, node_name in (("data", "w1"), ("kept", "w1"), ("far", "w2")):
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "default", "uid": claim},
            "spec": {"volumeName": f"pv-{claim}"},
        }
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": f"csi-{claim}", "uid": f"csi-{claim}"},
            "spec": {"nodeName": node_name, "attacher": "x", "source": {"persistentVolumeName": f"pv-{claim}"}},
        }


async def test_volumes_of_pods_that_left_must_be_detached(tmp_path: Path) -> None:
    keeper = pod("keeper", owner="DaemonSet/d", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}])
    cluster = Cluster(node("w1", cordoned=True), node("w2"), keeper, *volumes())
    step = Drained(node="w1", batch=("w1",), timeout=0.0)
    message = await refused(cluster.context(tmp_path), step)
    assert message.splitlines()[1:] == ["  volume pv-data is still attached"]
    del cluster.api.objects["storage.k8s.io", "VolumeAttachment", "", "csi-data"]
    assert (await step.precheck(cluster.context(tmp_path))).satisfied


async def test_pods_with_nowhere_to_go_stay_and_the_run_says_so(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", cordoned=True), pod("a"))
    ctx = cluster.context(tmp_path)
    assert (await DRAIN.precheck(ctx)).satisfied
    assert "nowhere to go" in ctx.warnings[0]
    assert not cluster.evicted


async def test_a_pod_no_other_node_takes_stays_and_the_rest_goes(tmp_path: Path) -> None:
    pinned = pod("pinned", nodeSelector={"disk": "ssd"})
    cluster = Cluster(node("w1", cordoned=True, labels={"disk": "ssd"}), node("w2"), pinned, pod("a"))
    ctx = cluster.context(tmp_path)
    await changed(ctx, DRAIN)
    assert cluster.evicted == ["a"]
    assert ctx.warnings == ["node w1: pod default/pinned (Deployment web) stays, since no other node takes it"]
    assert (await DRAIN.precheck(ctx)).satisfied


# proof


async def test_a_node_serves_once_it_is_ready_and_its_kubelet_answers(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", ready=False))
    ctx = cluster.context(tmp_path)
    step = NodeServes(patience=0.0)
    assert (await step.precheck(ctx)).reason == "it is not Ready"
    assert (await NodeServes(ready=False).precheck(ctx)).satisfied
    cluster.put(node("w1"))
    cluster.healthy = False
    assert "its kubelet does not answer" in (await step.precheck(ctx)).reason
    assert "node w1 does not serve again after 0 s" in await refused(ctx, step)
    cluster.healthy = True
    assert (await step.precheck(ctx)).satisfied
    assert (await step.precheck(cluster.context(tmp_path, "w9"))).reason == "it is not registered"


async def test_only_a_node_that_was_out_of_service_soaks(tmp_path: Path) -> None:
    cluster = Cluster(node("w1"))
    ctx, step = cluster.context(tmp_path), Soaked(seconds=0.0)
    assert (await step.precheck(ctx)).satisfied
    ctx.cache.set(BACK_IN_SERVICE, True, "w1")
    assert (await step.precheck(ctx)).satisfied is None
    await changed(ctx, step)
    cluster.put(node("w1", ready=False))
    assert "is not Ready 0 s later" in await refused(ctx, step)
