"""Workloads that are rolled out, and what is told of those that are not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.api import RolledOut, Workload, objects_of, rollout_fault, workloads_of
from kubexm.connector import Command
from kubexm.errors import StepError
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
    "metadata": {"name": "d-1", "namespace": "apps"},
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
    left = list(documents)

    def answer(words: list[str], command: Command) -> str | tuple[int, str] | None:
        match words[:2]:
            case ["get", "--ignore-not-found"]:
                return json.dumps(left.pop(0) if len(left) > 1 else left[0])
            case ["get", "pods"]:
                return json.dumps({"items": [POD]})
            case ["get", "events"]:
                return "Back-off restarting failed container\n"
            case ["logs", _]:
                return "starting\npanic: no config\n"
            case ["rollout", "status"]:
                well = not rollout_fault(left[0])
                return "done" if well else (1, "error: timed out waiting for the condition")
        return None

    api.other = answer


async def test_it_is_watched_until_it_is_so(tmp_path: Path) -> None:
    api = KubeApi()
    answers(api, deployment(ready=0), deployment())
    ctx = api.context(tmp_path)
    assert (await STEP.precheck(ctx)).reason == "Deployment apps/d: 0 of 2 pods are ready"
    await changed(ctx, STEP)
    assert api.verbs() == ["get", "rollout"]
    assert (await STEP.precheck(ctx)).satisfied


async def test_only_what_is_not_rolled_out_is_waited_for(tmp_path: Path) -> None:
    api = KubeApi()
    other = {**deployment(), "metadata": {**deployment()["metadata"], "name": "e"}}
    answers(api, {"items": [deployment(ready=0), other]}, deployment())
    ctx = api.context(tmp_path)
    both = replace(STEP, workloads=(*STEP.workloads, Workload("Deployment", "apps", "e")))
    assert (await both.precheck(ctx)).reason == "Deployment apps/d: 0 of 2 pods are ready"
    await changed(ctx, both)
    assert [words[2] for words in api.calls if words[0] == "rollout"] == ["deployment/d"]


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
