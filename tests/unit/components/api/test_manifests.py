"""Manifests that are applied exactly: with edits, losses, other hands, and an API that comes and goes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.components.api import Kind, ManifestsApplied
from kubexm.components.api.resources import Resource
from kubexm.connector import Command, CommandResult
from kubexm.errors import ApiInvalid, ApiUnavailable
from kubexm.runtime import Transcript, UnitConnector
from kubexm.step import clash
from tests.http_stub import Answer, Call
from tests.unit.components.kube_api import KubeApi, changed
from tests.unit.components.kube_http import status

ONE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {x: "1", z: "3"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
data: {x: "1"}
"""
TWO = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {x: "2"}
"""
REFUSED = "The connection to the server 127.0.0.1:6443 was refused - connection refused"


def step(manifests: str = ONE, name: str = "extra") -> ManifestsApplied:
    return ManifestsApplied(name=name, manifests=manifests, namespace="apps", patience=5.0)


async def test_what_was_applied_is_satisfied_by_one_question(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    first = await step().precheck(ctx)
    assert not first.satisfied
    assert first.reason == "they are not applied yet"
    assert '+  x: "1"' in first.diff
    api.http.calls.clear()
    await changed(ctx, step())
    assert api.http.verbs() == ["apply"] * 5, "the inventory, the namespace, two objects, and how they were left"
    assert api.http.calls[0].path == api.http.calls[-1].path
    api.http.calls.clear()
    assert (await step().precheck(ctx)).satisfied
    assert api.http.verbs() == ["get"] * 3, "at the same time"
    assert not api.calls, "kubectl is not needed"
    assert api.find("Namespace", "apps") is not None


async def test_an_edit_changes_just_that_and_removes_what_left(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    check = await step(TWO).precheck(ctx)
    assert check.reason == "ConfigMap apps/a, ConfigMap apps/b, which is to go"
    assert '-  x: "1"' in check.diff
    assert '+  x: "2"' in check.diff
    assert "+++ /dev/null" in check.diff
    await changed(ctx, step(TWO))
    assert (await step(TWO).precheck(ctx)).satisfied
    found = api.find("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "2"}
    assert api.find("ConfigMap", "b") is None


async def test_what_somebody_changed_or_deleted_by_hand_is_seen_and_put_back(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    api.edit("ConfigMap", "a", "data.x", "9")
    check = await step().precheck(ctx)
    assert check.reason == "ConfigMap apps/a"
    assert '-  x: "9"' in check.diff
    await changed(ctx, step())
    found = api.find("ConfigMap", "a")
    assert found is not None
    assert found["data"]["x"] == "1"
    del api.objects["", "ConfigMap", "apps", "b"]
    assert (await step().precheck(ctx)).reason == "ConfigMap apps/b"
    await changed(ctx, step())
    assert (await step().precheck(ctx)).satisfied


async def test_fields_of_others_are_left_alone(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    api.edit("ConfigMap", "a", "data.theirs", "y")
    api.edit("ConfigMap", "a", "metadata.annotations.note", "y")
    assert (await step().precheck(ctx)).satisfied
    await changed(ctx, step(TWO))
    found = api.find("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "2", "theirs": "y"}


async def test_an_object_that_was_made_anew_is_not_the_one_that_was_applied(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    found = api.find("ConfigMap", "a")
    assert found is not None
    found["metadata"]["uid"] = "another"
    assert not (await step().precheck(ctx)).satisfied


async def test_nothing_to_apply_removes_everything_and_asks_for_nothing_the_first_time(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    assert (await step("").precheck(ctx)).satisfied
    await changed(ctx, step())
    assert not (await step("").precheck(ctx)).satisfied
    await changed(ctx, step(""))
    assert (await step("").precheck(ctx)).satisfied
    assert [kind for _, kind, _, _ in api.objects] == ["Namespace"], "a namespace may be others' too"


async def test_what_other_manifests_took_over_is_not_removed(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    await changed(ctx, step(TWO, name="other"))
    await changed(ctx, step(""))
    assert api.find("ConfigMap", "a") is not None
    assert api.find("ConfigMap", "b") is None


async def test_a_run_that_was_cut_short_forgets_no_object(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    noted = []

    def killed(call: Call) -> Answer | None:
        noted.extend([call] if call.path.endswith("/secrets/kubexm-applied-extra") else [])
        return status(400, "killed") if len(noted) > 2 else None

    api.http.hook = killed
    with pytest.raises(ApiInvalid):
        await changed(ctx, step())
    api.http.hook = lambda call: None
    assert api.find("ConfigMap", "b") is not None
    assert not (await step().precheck(ctx)).satisfied, "how it ended is not known"
    await changed(ctx, step(TWO))
    assert api.find("ConfigMap", "b") is None, "it was applied by the run that was cut short"


async def test_an_api_that_is_not_there_yet_is_no_error_when_reading(tmp_path: Path) -> None:
    early = KubeApi()
    early.connector.on(re.compile(r"(?s).*cat -- /etc/kubernetes/admin.conf"), exit_code=44)
    check = await step().precheck(early.context(tmp_path))
    assert check.reason == "the API does not answer yet"
    assert "+++ ConfigMap apps/a" in check.diff
    api = KubeApi(forwards=False)
    api.other = lambda words, command: (127, "sh: kubectl: not found")
    assert (await step().precheck(api.context(tmp_path))).reason == "the API does not answer yet"
    api.other = lambda words, command: (1, "error: stat /etc/kubernetes/admin.conf: no such file or directory")
    assert (await step().precheck(api.context(tmp_path))).reason == "the API does not answer yet"


async def test_an_api_that_comes_and_goes_is_waited_for(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    api.http.down = [(503, "not ready"), (500, "etcdserver: leader changed")]
    await changed(ctx, step())
    api.http.down = [(503, "not ready")]
    assert (await step().precheck(ctx)).satisfied


async def test_a_host_that_forwards_nothing_is_asked_through_kubectl_with_the_same_results(tmp_path: Path) -> None:
    api = KubeApi(forwards=False)
    ctx = api.context(tmp_path)
    api.down = [REFUSED, "etcdserver: leader changed"]
    await changed(ctx, step())
    api.calls.clear()
    api.down = [REFUSED]
    assert (await step().precheck(ctx)).satisfied
    assert api.verbs() == ["get", "get"], "one process for all objects, and once more since the API was away"
    await changed(ctx, step(TWO))
    assert (await step(TWO).precheck(ctx)).satisfied
    assert api.find("ConfigMap", "b") is None
    assert {call.protocol for call in api.http.calls} == {"kubectl"}


async def test_a_refusal_is_told_at_once(tmp_path: Path) -> None:
    api = KubeApi()
    api.http.hook = lambda call: status(422, "spec.selector: field is immutable") if call.method == "PATCH" else None
    with pytest.raises(ApiInvalid, match="field is immutable") as caught:
        await changed(api.context(tmp_path), step())
    assert "delete the object" in caught.value.hint
    assert api.http.verbs().count("apply") == 1


async def test_an_api_that_stays_away_ends_in_an_error_that_says_where(tmp_path: Path) -> None:
    api = KubeApi()
    api.http.hook = lambda call: status(503, "not ready")
    patient = ManifestsApplied(name="extra", manifests=ONE, patience=0.5)
    with pytest.raises(ApiUnavailable, match="not ready") as caught:
        await changed(api.context(tmp_path), patient)
    assert caught.value.host == "n1"


async def test_a_kind_that_is_defined_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    api = KubeApi()
    text = ONE + "---\n{apiVersion: example.com/v1, kind: Foo, metadata: {name: f}}\n"
    kind = Kind("example.com", "v1", "Foo")
    api.http.extra["example.com", "foos"] = Resource(kind, "foos", namespaced=True)
    listed = {"resources": [{"name": "foos", "kind": "Foo", "namespaced": True}]}
    asked = []

    def define(call: Call) -> Answer | None:
        asked.extend([call] if call.path == kind.root else [])
        if len(asked) > 3:
            api.http.paths[kind.root] = Answer(body=json.dumps(listed).encode())
        return None

    api.http.hook = define
    ctx = api.context(tmp_path)
    assert not (await step(text).precheck(ctx)).satisfied
    await changed(ctx, step(text))
    assert api.find("Foo", "f") is not None
    assert (await step(text).precheck(ctx)).satisfied


async def test_an_object_on_its_way_out_is_applied_again_once_it_is_gone(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    found = api.find("ConfigMap", "a")
    assert found is not None
    found["metadata"]["deletionTimestamp"] = "2026-11-16T00:00:00Z"
    assert not (await step().precheck(ctx)).satisfied

    applied = []

    def gone(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith("/configmaps/a"):
            applied.append(call)
            if len(applied) == 2:
                del api.objects["", "ConfigMap", "apps", "a"]

    api.http.hook = gone
    await changed(ctx, step())
    assert (await step().precheck(ctx)).satisfied


async def test_what_a_removal_took_along_is_applied_again(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path)
    both = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n"
    await changed(ctx, step(both + "{apiVersion: v1, kind: Namespace, metadata: {name: gone}}"))

    def take_along(call: Call) -> None:
        if call.method == "DELETE":
            del api.objects["", "ConfigMap", "apps", "a"]

    api.http.hook = take_along
    await changed(ctx, step(both))
    assert api.find("ConfigMap", "a") is not None
    assert (await step(both).precheck(ctx)).satisfied


async def test_more_than_can_be_kept_of_what_kubectl_prints_is_not_lost(tmp_path: Path) -> None:
    api = KubeApi(forwards=False)
    inner = api.connector.execute

    async def cut_short(command: Command) -> CommandResult:
        result = await inner(command)
        return replace(result, stdout=result.stdout[:40], truncated=True) if " apply " in command.script else result

    api.connector.execute = cut_short  # type: ignore[method-assign]
    ctx = api.context(tmp_path)
    await changed(ctx, step())
    assert (await step().precheck(ctx)).satisfied


async def test_rollback_puts_back_what_this_run_found(tmp_path: Path) -> None:
    api = KubeApi()
    await changed(api.context(tmp_path, run="first"), step())
    later = api.context(tmp_path, run="second")
    await changed(later, step(TWO))
    await changed(later, step(TWO))
    later._connector.begin("undo")
    await step(TWO).rollback(later)
    assert (await step().precheck(later)).satisfied


async def test_rollback_removes_what_this_run_brought_and_leaves_what_others_did(tmp_path: Path) -> None:
    api = KubeApi()
    ctx = api.context(tmp_path, run="first")
    await changed(ctx, step())
    other = api.context(tmp_path, run="second")
    other._connector.begin("undo")
    await step().rollback(other)
    assert api.find("ConfigMap", "a") is not None
    ctx._connector.begin("undo")
    await step().rollback(ctx)
    assert api.find("ConfigMap", "a") is None


async def test_no_secret_reaches_the_log_or_the_arguments(tmp_path: Path) -> None:
    api = KubeApi()
    transcript = Transcript()
    from kubexm.testing.context import memory_context

    context = memory_context(tmp_path, {"n1": api.connector})
    ctx = context.step_context("x.y.z", UnitConnector(api.connector, lambda: transcript), "run-1")
    text = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: geheim}}"
    await changed(ctx, step(text))
    logged = transcript.text("stdout") + transcript.text("stderr")
    assert "apply Secret apps/s" in logged
    assert "managedFields" not in logged
    assert "fieldsV1" not in logged, "what is printed for us to compare is not to be read"
    assert "geheim" not in logged
    assert "Z2VoZWlt" not in logged
    assert all("Z2VoZWlt" not in script for script in api.connector.scripts)
    assert "geheim" not in (await step(text).precheck(ctx)).diff


def test_different_manifests_are_applied_beside_each_other() -> None:
    assert not clash(step(name="one").writes(), step(name="two").writes())
    assert clash(step(name="one").writes(), step(name="one").reads())
