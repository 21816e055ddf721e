"""The API through kubectl, on a host that forwards no connections: what it is called with, and what its words mean."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from kubexm.components.api.client import KubeClient
from kubexm.components.api.documents import Ref
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection
from kubexm.connector import Command, CommandResult
from kubexm.errors import ApiConflict, ApiError, ApiForbidden, ApiInvalid, ApiNotFound, ApiUnavailable, EvictionBlocked
from kubexm.testing import MemoryConnector

PODS = Selection(kind=Kind("", "v1", "Pod"), namespace="default", labels="app=web")
NODE = Ref("", "Node", "", "n1", "v1")


class Kubectl:
    """Answers kubectl with what it is told, and keeps how it was called."""

    def __init__(self, *answers: str | tuple[int, str]) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[list[str], Any]] = []
        self.connector = MemoryConnector("n1").on(re.compile(r"(?s).*kubectl .*"), callback=self._answer)
        self.client = KubeClient([self.connector], patience=0.0)

    def _answer(self, command: Command) -> CommandResult | str:
        words = shlex.split(command.script.split("kubectl ", 1)[1])
        self.calls.append((words, json.loads(command.stdin) if command.stdin else None))
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return answer
        return CommandResult(host="n1", command="kubectl", exit_code=answer[0], stderr=answer[1].encode())

    def words(self) -> list[str]:
        words, _ = self.calls[-1]
        assert words[:2] == ["--kubeconfig", "/etc/kubernetes/admin.conf"]
        return words[words.index("--request-timeout") + 2 :]


async def test_a_list_is_a_raw_get_with_its_selectors() -> None:
    host = Kubectl(json.dumps({"metadata": {}, "items": [{"metadata": {"name": "p1", "uid": "u1"}}]}))
    found = await host.client.list(PODS)
    assert [one["metadata"]["name"] for one in found] == ["p1"]
    assert host.words() == ["get", "--raw", "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb&limit=500"]


async def test_an_eviction_is_a_raw_create_and_a_blocked_one_says_why() -> None:
    said = "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget."
    host = Kubectl("{}", (1, said), (1, 'Error from server (NotFound): pods "p1" not found'))
    assert await host.client.evict("default", "p1", uid="u1")
    assert host.words() == ["create", "--raw", "/api/v1/namespaces/default/pods/p1/eviction", "-f", "-"]
    assert host.calls[-1][1]["deleteOptions"] == {"preconditions": {"uid": "u1"}}
    with pytest.raises(EvictionBlocked) as caught:
        await host.client.evict("default", "p1")
    assert caught.value.causes == ("Cannot evict pod as it would violate the pod's disruption budget.",)
    assert not await host.client.evict("default", "p1")


async def test_a_patch_goes_over_stdin_and_not_through_arguments() -> None:
    host = Kubectl(json.dumps({"kind": "Node"}), json.dumps({"kind": "DaemonSet"}))
    await host.client.patch(NODE, {"spec": {"unschedulable": True}})
    assert host.words() == shlex.split(
        "patch nodes n1 --type merge -o json --patch-file /dev/stdin --field-manager kubexm"
    )
    assert host.calls[-1][1] == {"spec": {"unschedulable": True}}
    assert host.connector.commands[-1].changes
    await host.client.patch(
        Ref("apps", "DaemonSet", "ns", "d", "v1"), [], form="json", subresource="scale", dry_run=True
    )
    assert host.words() == shlex.split(
        "patch daemonsets.v1.apps d --type json -o json --patch-file /dev/stdin --field-manager kubexm -n ns"
        " --subresource scale --dry-run=server"
    )
    assert not host.connector.commands[-1].changes


async def test_objects_are_applied_by_one_process() -> None:
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}} for name in "ab"
    ]
    host = Kubectl(json.dumps({"kind": "List", "items": list(reversed(documents))}))
    applied = await host.client.apply(documents, strict=True)
    assert [one["metadata"]["name"] for one in applied] == ["a", "b"]
    assert len(host.calls) == 1
    assert host.words() == shlex.split(
        "apply --server-side --field-manager kubexm --force-conflicts --validate=strict -f -"
        " --show-managed-fields -o json"
    )


async def test_a_deletion_sends_its_options() -> None:
    host = Kubectl("{}")
    assert await host.client.delete(NODE, uid="u", grace=3)
    assert host.words() == ["delete", "--raw", "/api/v1/nodes/n1", "-f", "-"]
    assert host.calls[-1][1]["propagationPolicy"] == "Background"
    assert host.calls[-1][1]["preconditions"] == {"uid": "u"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('Error from server (NotFound): nodes "n1" not found', ApiNotFound),
        ("Error from server (Forbidden): nodes is forbidden", ApiForbidden),
        ("Error from server (Conflict): the object has been modified", ApiConflict),
        ("Error from server (Invalid): it is invalid", ApiInvalid),
        ('error: Apply failed with 1 conflict: conflict with "x" using v1: .data.z\nPlease review', ApiConflict),
        ("error: the server has asked for the client to provide credentials", ApiUnavailable),
        ("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?", ApiError),
        ("dial tcp 127.0.0.1:6443: connect: connection refused", ApiUnavailable),
        ("error: stat /etc/kubernetes/admin.conf: no such file or directory", ApiUnavailable),
    ],
)  # fmt: skip
async def test_what_kubectl_says_becomes_the_same_errors(said: str, kind: type[ApiError]) -> None:
    host = Kubectl((1, said))
    with pytest.raises(kind) as caught:
        await host.client.get(NODE)
    assert caught.value.host == "n1"


async def test_a_watch_prints_until_it_is_over() -> None:
    lines = [
        {"type": kind, "object": {"metadata": {"name": "p1", "resourceVersion": str(number)}}}
        for number, kind in enumerate(("ADDED", "BOOKMARK", "DELETED"))
    ]
    host = Kubectl("".join(json.dumps(line) + "\n" for line in lines), *["" for _ in range(50)])
    seen = [event.type async for event in host.client.watch(PODS, version="7", within=1.0)]
    assert seen == ["ADDED", "DELETED"]
    first, later = host.calls[0][0][-1], host.calls[1][0][-1]
    assert "resourceVersion=7" in first
    assert "resourceVersion=2" in later, "it goes on where it was"
