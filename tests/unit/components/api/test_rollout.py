"""Workloads that are rolled out, and what is told of those that are not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.api import RolledOut, Workload, objects_of, rollout_fault, workloads_of
from kubexm.errors import StepError
from tests.http_stub import Answer
from tests.unit.components.kube_api import KubeApi, changed


def deployment(
    *, generation: int = 1, seen: int = 1, replicas: int = 2, new: int = 2, ready: int = 2
) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "apps", "generation": generation, "uid": "1"},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": seen, "replicas": replicas, "updatedReplicas": new, "readyReplicas": ready},
    }


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (deployment(), ""),
        (deployment(generation=2), "nobody has looked at its last change yet"),
        (deployment(new=1, replicas=1), "1 of 2 pods are of the newest kind"),
        (deployment(replicas=3), "1 pods of an older kind are still there"),
        (deployment(ready=1), "1 of 2 pods are ready"),
        ({"kind": "DaemonSet", "metadata": {}, "status": {}}, ""),
        (
            {
                "kind": "DaemonSet",
                "metadata": {},
                "status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberReady": 2},
            },
            "2 of 3 pods are ready",
        ),
        (
            {"kind": "Job", "metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}},
            "it is not complete",
        ),
        ({"kind": "Job", "metadata": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, ""),
    ],
)
def test_what_is_not_rolled_out_yet(document: dict[str, Any], fault: str) -> None:
    assert rollout_fault(document) == fault


def test_what_can_be_waited_for_is_found_among_objects() -> None:
    text = """
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: other}}
---
{apiVersion: example.com/v1, kind: Deployment, metadata: {name: not-ours}}
"""
    assert workloads_of(objects_of(text, "x", "apps")) == (
        Workload("Deployment", "apps", "d"),
        Workload("Job", "other", "j"),
    )


STEP = RolledOut(name="extra", workloads=(Workload("Deployment", "apps", "d"),), patience=0.2)
POD = {
    "metadata": {"name": "d-1", "namespace": "apps", "uid": "p1"},
    "spec": {"nodeName": "n2"},
    "status": {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": "web",
                "ready": False,
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                "lastState": {"terminated": {"reason": "Error", "exitCode": 2}},
            }
        ],
    },
}


def answers(api: KubeApi, *documents: dict[str, Any]) -> None:
    for document in documents:
        api.objects["apps", "Deployment", "apps", document["metadata"]["name"]] = document
    api.objects["", "Pod", "apps", "d-1"] = {"apiVersion": "v1", "kind": "Pod", **POD}
    event = {"involvedObject": {"name": "d-1"}, "type": "Warning", "message": "Back-off restarting failed container"}
    metadata = {"name": "d-1.x", "namespace": "apps", "uid": "e1"}
    api.objects["", "Event", "apps", "d-1.x"] = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **event}
    api.http.paths["/api/v1/namespaces/apps/pods/d-1/log"] = Answer(body=b"starting\npanic: no config\n")
    api.http.changed()


async def test_it_is_watched_until_it_is_so(tmp_path: Path) -> None:
    api = KubeApi()
    answers(api, deployment(ready=0))
    ctx, step = api.context(tmp_path), replace(STEP, patience=30.0)
    assert (await step.precheck(ctx)).reason == "Deployment apps/d: 0 of 2 pods are ready"
    running = asyncio.ensure_future(changed(ctx, step))
    await asyncio.sleep(0.1)
    answers(api, deployment(ready=1))
    await asyncio.sleep(0.1)
    answers(api, deployment())
    await running
    paths = [call.path for call in api.http.calls]
    assert len(paths) == 3, "one question for the precheck, one list, one watch"
    assert (await step.precheck(ctx)).satisfied


async def test_only_what_is_not_rolled_out_is_waited_for(tmp_path: Path) -> None:
    api = KubeApi()
    other = {**deployment(), "metadata": {**deployment()["metadata"], "name": "e", "uid": "2"}}
    answers(api, deployment(ready=0), other)
    ctx = api.context(tmp_path)
    both = replace(STEP, workloads=(*STEP.workloads, Workload("Deployment", "apps", "e")), patience=30.0)
    assert (await both.precheck(ctx)).reason == "Deployment apps/d: 0 of 2 pods are ready"
    answers(api, deployment())
    await changed(ctx, both)
    assert {call.query.get("fieldSelector") for call in api.http.calls} == {None, "metadata.name=d"}


async def test_one_that_does_not_come_up_tells_node_pod_events_and_log(tmp_path: Path) -> None:
    api = KubeApi()
    answers(api, deployment(ready=0))
    with pytest.raises(StepError) as caught:
        await changed(api.context(tmp_path), STEP)
    for telling in ("0 of 2", "pod apps/d-1 on n2", "CrashLoopBackOff", "with 2", "Back-off", "panic: no config"):
        assert telling in caught.value.message
    assert "kubectl -n apps" in caught.value.hint


async def test_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    api = KubeApi()
    assert (await STEP.precheck(api.context(tmp_path))).reason == "Deployment apps/d: it is not there"
