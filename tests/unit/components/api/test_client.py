"""The API client, over streams of in-memory hosts and through kubectl where a host forwards none."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from typing import Any

import pytest

from kubexm.components.api.client import KubeClient
from kubexm.components.api.documents import Ref
from kubexm.components.api.resources import Kind, Resource
from kubexm.components.api.selection import Selection
from kubexm.connector import ByteStream, Command
from kubexm.errors import (
    ApiConflict,
    ApiExpired,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnavailable,
    ConnectionLost,
    EvictionBlocked,
)
from tests.http_stub import Answer
from tests.unit.components.kube_api import KubeApi

PODS = Kind("", "v1", "Pod")
CONFIG = Ref("", "ConfigMap", "kube-system", "a", "v1")


def config(name: str = "a", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(api: KubeApi, name: str, *, node: str = "n1", **labels: str) -> None:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "managedFields": [{}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}
    api.objects["", "Pod", "default", name] = document
    api.http.changed()


@pytest.fixture(params=[True, False], ids=["forwarded", "kubectl"])
def api(request: pytest.FixtureRequest) -> KubeApi:
    return KubeApi(forwards=request.param)


async def test_objects_are_applied_read_and_deleted_either_way(api: KubeApi) -> None:
    client = KubeClient([api.connector])
    applied = await client.apply([config("a", x="1"), config("b", x="2")])
    assert [one["metadata"]["name"] for one in applied] == ["a", "b"]
    missing = Ref("", "ConfigMap", "kube-system", "none", "v1")
    found = await client.get_many([CONFIG, missing], metadata_only=True)
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [("ConfigMap", "a")]
    assert found[0]["metadata"]["managedFields"]
    await api.connector.close()


async def test_one_object_is_got_found_and_deleted() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    await client.apply([config(x="1")])
    assert (await client.get(CONFIG))["data"] == {"x": "1"}
    assert await client.delete(CONFIG)
    assert not await client.delete(CONFIG)
    assert await client.find(CONFIG) is None
    with pytest.raises(ApiNotFound, match='get ConfigMap kube-system/a: configmaps "a" not found'):
        await client.get(CONFIG)
    assert api.connector.streams.changes == ["apply ConfigMap kube-system/a", "delete ConfigMap kube-system/a"]
    await api.connector.close()


async def test_a_merge_patch_changes_part_of_an_object() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    await client.apply([config(x="1", y="2")])
    patched = await client.patch(CONFIG, {"data": {"x": "3", "y": None}})
    assert patched["data"] == {"x": "3"}
    await api.connector.close()


async def test_a_dry_run_changes_nothing_and_is_no_change() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    pod(api, "p1")
    await client.apply([config(x="1")], dry_run=True)
    assert await client.evict("default", "p1", dry_run=True)
    assert list(api.objects) == [("", "Pod", "default", "p1")]
    assert api.connector.streams.changes == []
    await api.connector.close()


async def test_lists_are_asked_for_page_by_page() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    for number in range(7):
        pod(api, f"p{number}", node=f"n{number % 2}", app="web")
    pod(api, "other", app="db")
    selection = Selection(kind=PODS, labels="app=web")
    found = await client.list(selection, page=3)
    assert [one["metadata"]["name"] for one in found] == [f"p{number}" for number in range(7)]
    assert {one["kind"] for one in found} == {"Pod"}
    assert [call.query.get("continue") for call in api.http.calls] == [None, "3", "6"]
    on_node = await client.list(Selection(kind=PODS, fields="spec.nodeName=n1"), metadata_only=True)
    assert {one["metadata"]["name"] for one in on_node} == {"p1", "p3", "p5", "other"}
    assert all("spec" not in one and one["kind"] == "Pod" for one in on_node)
    await api.connector.close()


async def test_a_list_that_expires_half_way_is_begun_anew_and_nothing_is_told_twice() -> None:
    api = KubeApi()
    for number in range(4):
        pod(api, f"p{number}")
    client, seen = KubeClient([api.connector]), []
    async for one in client.pages(Selection(kind=PODS), page=2):
        seen.append(one["metadata"]["name"])
        if len(seen) == 2:
            api.http.down.append((410, "The provided continue parameter is too old"))
    assert seen == ["p0", "p1", "p2", "p3"]
    await api.connector.close()


async def test_a_watch_tells_of_changes_and_following_keeps_the_whole() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    pod(api, "p0")
    states: list[list[str]] = []
    async with aclosing(client.follow(Selection(kind=PODS, namespace="default"), within=20.0)) as following:
        async for objects in following:
            states.append(sorted(name for _, name in objects))
            if states[-1] == ["p0"] and len(states) == 1:
                pod(api, "p1")
            elif states[-1] == ["p0", "p1"]:
                del api.objects["", "Pod", "default", "p0"]
                api.http.changed()
            elif states[-1] == ["p1"]:
                break
    assert states[0] == ["p0"]
    assert states[-1] == ["p1"]
    await api.connector.close()


async def test_waiting_ends_when_it_is_so_or_when_the_time_is_over() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    selection = Selection(kind=PODS)
    waiting = asyncio.ensure_future(client.until(selection, lambda pods: len(pods) == 2, within=20.0))
    await asyncio.sleep(0.05)
    pod(api, "p1")
    pod(api, "p2")
    assert await waiting
    assert not await client.until(selection, lambda pods: len(pods) == 3, within=0.2)
    await api.connector.close()


async def test_an_eviction_that_a_budget_blocks_names_its_cause_and_is_not_repeated() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    pod(api, "p1")
    pod(api, "p2")
    cause = "The disruption budget web needs 2 healthy pods and has 2 currently"
    api.http.blocked["p1"] = cause
    with pytest.raises(EvictionBlocked, match="evict pod default/p1") as caught:
        await client.evict("default", "p1", uid="uid-p1", grace=5)
    assert caught.value.causes == (cause,)
    sent = json.loads(api.http.calls[-1].body)
    assert sent["deleteOptions"] == {"gracePeriodSeconds": 5, "preconditions": {"uid": "uid-p1"}}
    assert len(api.http.calls) == 1
    assert await client.evict("default", "p2")
    assert not await client.evict("default", "p2")
    assert api.connector.streams.changes == ["evict pod default/p2"], "what failed is not logged as done"
    await api.connector.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, ApiInvalid), (403, ApiForbidden), (409, ApiConflict), (410, ApiExpired), (422, ApiInvalid)],
)
async def test_what_cannot_be_repeated_is_raised_at_once(code: int, kind: type[Exception]) -> None:
    api = KubeApi()
    api.http.down.append((code, "no, because"))
    with pytest.raises(kind, match="apply ConfigMap kube-system/a: no, because") as caught:
        await KubeClient([api.connector], patience=10.0).apply([config()])
    assert getattr(caught.value, "status", 0) == code
    assert getattr(caught.value, "host", "") == "n1"
    assert len(api.http.calls) == 1
    await api.connector.close()


async def test_an_object_that_does_not_fit_its_schema_is_invalid_though_the_server_says_500() -> None:
    api = KubeApi()
    said = "failed to create typed patch object (ns/bad; /v1, Kind=ConfigMap): .datta: field not declared in schema"
    api.http.down.append((500, said))
    with pytest.raises(ApiInvalid, match=r"\.datta"):
        await KubeClient([api.connector], patience=10.0).apply([config()])
    await api.connector.close()


async def test_a_busy_or_starting_server_is_asked_again_for_a_while() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    api.http.down += [(503, "not ready"), (429, "too many"), (500, "etcdserver: leader changed"), (401, "Unauthorized")]
    assert await client.list(Selection(kind=PODS), patience=30.0) == []
    api.http.down += [(503, "not ready")] * 50
    with pytest.raises(ApiUnavailable, match="not ready"):
        await client.list(Selection(kind=PODS), patience=0.1)
    await api.connector.close()


async def test_a_change_that_needs_a_kind_which_comes_later_is_tried_again() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
    with pytest.raises(ApiNotFound, match='no matches for kind "Widget"') as caught:
        await client.apply([widget], patience=0.1)
    assert "CustomResourceDefinition" in caught.value.hint
    assert await client.get_many([Ref.of(widget), CONFIG]) == [], "reading what cannot exist finds nothing"

    applying = asyncio.ensure_future(client.apply([config(), widget], patience=20.0))
    await asyncio.sleep(0.1)
    listed = {
        "resources": [
            {"name": "widgets/status", "kind": "Widget"},
            {"name": "widgets", "kind": "Widget", "namespaced": True},
        ]
    }
    api.http.paths["/apis/example.com/v1"] = Answer(body=json.dumps(listed).encode())
    api.http.extra["example.com", "widgets"] = Resource(Kind("example.com", "v1", "Widget"), "widgets", namespaced=True)
    await applying
    assert ("example.com", "Widget", "default", "w") in api.objects
    applied = [call.path for call in api.http.calls if call.method == "PATCH"]
    assert applied.count("/api/v1/namespaces/kube-system/configmaps/a") == 1, "what was applied is not applied again"
    await api.connector.close()


async def test_another_control_plane_is_asked_when_the_first_does_not_answer() -> None:
    first, second = KubeApi("n1"), KubeApi("n2")
    client = KubeClient([first.connector, second.connector])
    pod(second, "p1")
    first.connector.streams.stop("127.0.0.1", 6443)
    assert len(await client.list(Selection(kind=PODS))) == 1
    opened = len(first.connector.streams.opened)
    assert len(await client.list(Selection(kind=PODS))) == 1
    assert len(first.connector.streams.opened) == opened, "the one that answered is asked first from then on"
    second.connector.streams.stop("127.0.0.1", 6443)
    with pytest.raises(ApiUnavailable) as caught:
        await client.list(Selection(kind=PODS), patience=0.0)
    assert "n1: " in caught.value.message
    assert "n2: " in caught.value.message
    await first.connector.close()
    await second.connector.close()


async def _silent(stream: ByteStream) -> None:
    while await stream.receive():
        pass


async def test_a_server_that_is_silent_because_its_host_is_gone_is_a_lost_connection() -> None:
    api = KubeApi("n1")
    api.connector.listen("127.0.0.1", 6443, _silent).on(":")
    with pytest.raises(ApiUnavailable, match="does not answer"):
        await KubeClient([api.connector]).text("/readyz", patience=0.0, within=0.05)

    def gone(command: Command) -> int:
        raise ConnectionLost("there is no route", host="n1")

    api.connector.on(":", callback=gone)
    with pytest.raises(ConnectionLost):  # at once, however long servers may take to answer
        await KubeClient([api.connector]).text("/readyz", patience=5.0, within=0.05)
    await api.connector.close()


async def test_no_credentials_yet_is_unavailable_and_says_which_file() -> None:
    api = KubeApi()
    api.connector.on(_cat(), exit_code=44)
    with pytest.raises(ApiUnavailable, match="is not there yet"):
        await KubeClient([api.connector]).list(Selection(kind=PODS), patience=0.0)


async def test_credentials_that_are_refused_are_read_again() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    await client.list(Selection(kind=PODS))
    await client.list(Selection(kind=PODS))
    assert len(api.connector.commands) == 1
    api.http.down.append((401, "Unauthorized"))
    await client.list(Selection(kind=PODS), patience=0.0)
    assert len(api.connector.commands) == 2
    assert {call.headers["authorization"] for call in api.http.calls} == {"Bearer a-token"}
    await api.connector.close()


async def test_logs_and_plain_paths_are_text() -> None:
    api = KubeApi()
    client = KubeClient([api.connector])
    api.http.paths["/api/v1/namespaces/default/pods/p1/log"] = Answer(body=b"one\ntwo\n")
    api.http.paths["/readyz"] = Answer(status=500, body=b"[-]etcd failed\n")
    assert await client.logs("default", "p1", container="c", tail=2, previous=True) == "one\ntwo\n"
    assert dict(api.http.calls[-1].query) == {"container": "c", "tailLines": "2", "previous": "true"}
    with pytest.raises(ApiUnavailable, match=r"\[-\]etcd failed"):
        await client.text("/readyz", patience=0.0)
    await api.connector.close()


async def test_a_watch_that_is_too_old_says_so() -> None:
    api = KubeApi()
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}

    async def lines() -> Any:
        yield json.dumps(error).encode() + b"\n"

    api.http.paths["/api/v1/pods"] = Answer(body=lines())
    client = KubeClient([api.connector])
    with pytest.raises(ApiExpired, match="too old"):
        async for _ in client.watch(Selection(kind=PODS), version="1", within=5.0):
            pass
    await api.connector.close()


def _cat() -> re.Pattern[str]:
    return re.compile(r"(?s).*cat -- /etc/kubernetes/admin.conf")
