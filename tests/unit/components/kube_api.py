"""An API server small enough to read: it answers HTTP and kubectl as the real one does, as far as kubexm asks it.

Server-side apply keeps who owns which field; whoever else changes a value takes the field. That is what inventories
stand on, so it is kept here as the real API keeps it, and tests/cluster asks a real one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from kubexm.components.api.documents import Ref
from kubexm.connector import ByteStream, Command, CommandResult
from kubexm.runtime import StepContext, Transcript, UnitConnector
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.http_stub import call_of, serve_http1
from tests.unit.components.kube_http import HttpFace

_runs = count()
Identity = tuple[str, str, str, str]
CLUSTER_WIDE = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "CustomResourceDefinition",
    "Node",
} | {"VolumeAttachment"}


ADMIN_CONF = """\
apiVersion: v1
kind: Config
clusters: [{name: demo, cluster: {server: "http://127.0.0.1:6443"}}]
users: [{name: admin, user: {token: a-token}}]
contexts: [{name: admin@demo, context: {cluster: demo, user: admin}}]
current-context: admin@demo
"""


class KubeApi:
    """Objects, and what the API says of them: over HTTP, or by kubectl where the host forwards no connections."""

    def __init__(self, name: str = "n1", *, forwards: bool = True, connector: MemoryConnector | None = None) -> None:
        self.objects: dict[Identity, dict[str, Any]] = {}
        self.calls: list[list[str]] = []
        self.down: list[str] = []
        """What it answers instead, one for each call, before it is up again."""
        self.unknown: set[str] = set()
        """Kinds it does not know."""
        self.other: Callable[[list[str], Command], str | tuple[int, str] | None] = lambda words, command: None
        """Asked for what is not get, apply or delete."""
        self._count = 0
        self.connector = (connector or MemoryConnector(name)).on(re.compile(r"(?s).*kubectl .*"), callback=self._answer)
        self.http = HttpFace(lambda: list(self.objects.values()), self._applied, self._deleted)
        """What is asked over HTTP."""
        if forwards:
            self.connector.on(re.compile(r"(?s).*cat -- /etc/kubernetes/\S*admin.conf"), stdout=ADMIN_CONF)
            self.connector.listen("127.0.0.1", 6443, self._serve)

    def context(self, work_dir: Path, *, run: str = "run-1") -> StepContext:
        """What a step acts with, reading only; `changing` lets it change."""
        context = memory_context(work_dir, {self.connector.host: self.connector})
        return context.step_context("x.y.z", UnitConnector(self.connector, Transcript), run)

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object of a kind and name, wherever it is."""
        return next((one for key, one in self.objects.items() if key[1] == kind and key[3] == name), None)

    def verbs(self) -> list[str]:
        """What was asked, in order."""
        return [words[0] for words in self.calls]

    def edit(self, kind: str, name: str, path: str, value: Any) -> None:
        """Somebody else changes a field: kubexm no longer owns it."""
        found = self.find(kind, name)
        assert found is not None
        *above, last = path.split(".")
        place, owned = found, found["metadata"]["managedFields"][0]["fieldsV1"]
        for key in above:
            place, owned = place.setdefault(key, {}), owned.get(f"f:{key}", {})
        place[last] = value
        owned.pop(f"f:{last}", None)

    async def _serve(self, stream: ByteStream) -> None:
        await serve_http1(stream, self.http.handle)

    def _applied(self, item: dict[str, Any]) -> dict[str, Any]:
        self._apply(item)
        return self.objects[_identity(item)]

    def _deleted(self, ref: Ref) -> bool:
        return self.objects.pop(_identity(ref.stub()), None) is not None

    async def _raw(self, words: list[str], command: Command) -> CommandResult | str:
        """A request as it is, which kubectl passes on."""
        method = {"get": "GET", "create": "POST", "delete": "DELETE"}[words[0]]
        call = call_of(method, words[words.index("--raw") + 1], {}, command.stdin or b"", "kubectl")
        answer = await self.http.handle(call)
        assert isinstance(answer.body, bytes)
        if answer.status < 400:
            return answer.body.decode()
        status = json.loads(answer.body)
        return _failed(command, f"Error from server ({status['reason']}): {status['message']}")

    def _answer(self, command: Command) -> CommandResult | str | Awaitable[CommandResult | str]:
        words = shlex.split(command.script.split("kubectl ", 1)[1])
        while words and words[0].startswith("--"):
            words = words[2:]
        self.calls.append(words)
        if self.down:
            return _failed(command, self.down.pop(0))
        given = self.other(words, command)
        if given is not None:
            return given if isinstance(given, str) else _failed(command, given[1], given[0])
        if "--raw" in words:
            return self._raw(words, command)
        items = json.loads(command.stdin)["items"] if command.stdin else []
        wrong = [item["kind"] for item in items if item["kind"] in self.unknown]
        found = [item for item in items if item["kind"] not in self.unknown]
        match words[0]:
            case "get":
                text = self._get(words, found)
            case "apply":
                text = "".join(self._apply(item) for item in found)
                text = self._get(words, found) if "-o" in words else text
            case "delete":
                text = "".join(self._delete(_identity(item)) for item in found)
            case _:
                raise AssertionError(f"nobody said what kubectl {words[0]} answers")
        if wrong:
            error = f'error: unable to recognize "STDIN": no matches for kind "{wrong[0]}" in version "v1"'
            return CommandResult(host="n1", command="kubectl", exit_code=1, stdout=text.encode(), stderr=error.encode())
        return text

    def _get(self, words: list[str], items: list[dict[str, Any]]) -> str:
        if "-l" in words:
            key, _, values = words[words.index("-l") + 1].partition(" in ")
            wanted = values.strip("()").split(",")
            live = [one for one in self.objects.values() if one["metadata"].get("labels", {}).get(key) in wanted]
        else:
            live = [self.objects[key] for key in map(_identity, items) if key in self.objects]
        if words[words.index("-o") + 1] == "json":
            return json.dumps(live[0] if len(live) == 1 else {"kind": "List", "items": live}) if live else ""
        return "".join(f"{_row(one)}\n" for one in live) + ("v1\tList" + "\t" * 7 + "\n" if len(live) > 1 else "")

    def _apply(self, item: dict[str, Any]) -> str:
        key = _identity(item)
        live = self.objects.get(key)
        before = live["metadata"]["managedFields"][0]["fieldsV1"] if live is not None else {}
        if live is None:
            self._count += 1
            live = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {"uid": f"u{self._count}"}}
            self.objects[key] = live
        owned = _fields({name: value for name, value in item.items() if name not in ("apiVersion", "kind")})
        for name in ("f:name", "f:namespace", "f:uid"):
            owned.get("f:metadata", {}).pop(name, None)
        _drop(live, before, owned)
        _merge(live, item)
        if item["kind"] in CLUSTER_WIDE:
            live["metadata"].pop("namespace", None)
        entry = {"manager": "kubexm", "operation": "Apply", "fieldsV1": owned}
        live["metadata"]["managedFields"] = [entry]
        return f"{item['kind'].lower()}/{item['metadata']['name']} serverside-applied\n"

    def _delete(self, key: Identity) -> str:
        found = self.objects.pop(key, None)
        return f'{key[1].lower()} "{key[3]}" deleted\n' if found is not None else ""


def _failed(command: Command, error: str, code: int = 1) -> CommandResult:
    return CommandResult(host="n1", command=command.display, exit_code=code, stderr=error.encode())


def _identity(item: dict[str, Any]) -> Identity:
    group, _, _ = item["apiVersion"].rpartition("/")
    namespace = "" if item["kind"] in CLUSTER_WIDE else item["metadata"].get("namespace") or "default"
    return group, item["kind"], namespace, item["metadata"]["name"]


def _row(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return "\t".join(
        (
            item["apiVersion"],
            item["kind"],
            metadata.get("namespace", ""),
            metadata["name"],
            metadata["uid"],
            metadata.get("deletionTimestamp", ""),
            metadata.get("labels", {}).get("kubexm.io/applied", ""),
            metadata.get("annotations", {}).get("kubexm.io/inventory", ""),
            json.dumps(metadata["managedFields"][0]),
        )
    )


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": _fields(item) for key, item in value.items()}


def _merge(live: dict[str, Any], item: dict[str, Any]) -> None:
    for key, value in item.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            _merge(live[key], value)
        else:
            live[key] = json.loads(json.dumps(value))


def _drop(live: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> None:
    """Takes away what was owned and is not applied any more."""
    for field, inner in before.items():
        key = field[2:]
        if field not in now:
            live.pop(key, None)
        elif isinstance(live.get(key), dict):
            _drop(live[key], inner, now[field])


async def changed(ctx: StepContext, step: Any) -> None:
    """Runs a step as the engine would."""
    ctx._connector.begin(f"test-{next(_runs)}")
    try:
        await step.run(ctx)
    finally:
        ctx._connector.end()
