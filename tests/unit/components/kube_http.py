"""The API of `KubeApi` over HTTP, as far as kubexm's client asks it. What it does not know is answered with 400."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from kubexm.components.api.documents import Ref
from kubexm.components.api.resources import Kind, Resource, known_resource
from tests.http_stub import Answer, Call

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<namespace>[^/]+)(?=/[a-z]))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
_KINDS = {
    "": (
        *("ConfigMap", "Event", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "Secret", "Service"),
        "ServiceAccount",
    ),
    "apps": ("DaemonSet", "Deployment", "StatefulSet"),
    "batch": ("Job",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "policy": ("PodDisruptionBudget",),
    "storage.k8s.io": ("StorageClass", "VolumeAttachment"),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
}
_VERBS = {
    ("GET", ""): "get",
    ("PATCH", "application/apply-patch+yaml"): "apply",
    ("PATCH", "application/merge-patch+json"): "patch",
    ("DELETE", "application/json"): "delete",
}
Document = dict[str, Any]


class HttpFace:
    """Answers requests from a store of objects, which it is given as functions."""

    def __init__(
        self, live: Callable[[], list[Document]], apply: Callable[[Document], Document], delete: Callable[[Ref], bool]
    ) -> None:
        self._live = live
        self._apply = apply
        self._delete = delete
        self._changed = asyncio.Event()
        self.calls: list[Call] = []
        self.down: list[tuple[int, str]] = []
        """What it answers instead, one for each call, before it is up again."""
        self.paths: dict[str, Answer] = {}
        """Answers to paths that are no objects: /readyz, logs, lists of kinds."""
        self.extra: dict[tuple[str, str], Resource] = {}
        """Resources that not every cluster has, by group and plural."""
        self.unknown: set[str] = set()
        """Kinds it does not know."""
        self.hook: Callable[[Call], Answer | None] = lambda call: None
        """Asked first: what it gives is the answer."""
        self.blocked: dict[str, str] = {}
        """Pods that cannot be evicted, and what the API says of them."""

    @property
    def requests(self) -> list[str]:
        """What was asked, in order."""
        return [f"{call.method} {call.path}" for call in self.calls]

    def verbs(self) -> list[str]:
        """What was asked, in order, in the words of kubectl."""
        return [_VERBS.get((call.method, call.headers.get("content-type", "")), call.method) for call in self.calls]

    def changed(self) -> None:
        """Tells watches that something changed."""
        self._changed.set()

    async def handle(self, call: Call) -> Answer:
        self.calls.append(call)
        if self.down:
            return status(*self.down.pop(0))
        given = self.hook(call)
        if given is not None:
            return given
        if call.path in self.paths:
            return self.paths[call.path]
        found = _PATH.fullmatch(call.path)
        resource = None if found is None else self._resource(found)
        if found is None or resource is None:
            return status(404, "the server could not find the requested resource", "NotFound")
        if call.query.get("watch"):
            return Answer(body=self._watch(call, resource, found["namespace"] or ""))
        place = (found["namespace"] or "", found["name"] or "")
        match call.method, found["subresource"]:
            case "GET", None:
                return self._get(call, resource, *place)
            case "PATCH", None if call.headers["content-type"] == "application/apply-patch+yaml":
                return self._applied(call)
            case "PATCH", None if call.headers["content-type"] == "application/merge-patch+json":
                return self._merged(call, resource, *place)
            case "DELETE", None:
                return self._deleted(resource, *place)
            case "POST", "eviction":
                return self._evicted(call, resource, *place)
        return status(400, f"the test API does not know {call.method} {call.path}")

    def _resource(self, found: re.Match[str]) -> Resource | None:
        group, plural = found["group"] or "", found["plural"]
        extra = self.extra.get((group, plural))
        if extra is not None:
            return extra
        for name in _KINDS.get(group, ()):
            known = known_resource(Kind(group, found["version"] or "v1", name))
            if known is not None and known.plural == plural and name not in self.unknown:
                return known
        return None

    def _select(self, call: Call, resource: Resource, namespace: str) -> list[Document]:
        kind = (resource.kind.group, resource.kind.kind)
        mine = [one for one in self._live() if _kind(one) == kind]
        inside = [one for one in mine if not namespace or one["metadata"].get("namespace") == namespace]
        labels, fields = call.query.get("labelSelector", ""), call.query.get("fieldSelector", "")
        return [one for one in inside if _labelled(one, labels) and _fielded(one, fields)]

    def _get(self, call: Call, resource: Resource, namespace: str, name: str) -> Answer:
        if name:
            found = self._find(resource, namespace, name)
            return _missing(resource, name) if found is None else _json(_formed(found, call))
        items = [_formed(one, call) for one in self._select(call, resource, namespace)]
        start, limit = int(call.query.get("continue", "0")), int(call.query.get("limit", "0"))
        end = start + limit if limit else len(items)
        more = {"continue": str(end)} if end < len(items) else {}
        kind = f"{resource.kind.kind}List"
        return _json({"kind": kind, "metadata": {"resourceVersion": "1", **more}, "items": items[start:end]})

    async def _watch(self, call: Call, resource: Resource, namespace: str) -> AsyncIterator[bytes]:
        """Tells of every object once more each time that something changed: a client has to bear that."""
        known: dict[str, Document] = {}
        while True:
            self._changed.clear()
            now = {_name(one): json.loads(json.dumps(one)) for one in self._select(call, resource, namespace)}
            for name, one in now.items():
                if known.get(name) != one:
                    yield _line("MODIFIED" if name in known else "ADDED", one)
            for name in known.keys() - now.keys():
                yield _line("DELETED", known[name])
            known = now
            await self._changed.wait()

    def _applied(self, call: Call) -> Answer:
        document = json.loads(call.body)
        if document["kind"] in self.unknown:
            return status(404, "the server could not find the requested resource", "NotFound")
        if call.query.get("dryRun"):
            return _json(document)
        applied = self._apply(document)
        self.changed()
        return _json(applied)

    def _merged(self, call: Call, resource: Resource, namespace: str, name: str) -> Answer:
        found = self._find(resource, namespace, name)
        if found is None:
            return _missing(resource, name)
        patch, metadata = json.loads(call.body), found["metadata"]
        expected = (patch.get("metadata") or {}).pop("resourceVersion", None)
        if expected is not None and expected != metadata.get("resourceVersion"):
            return status(
                409, "the object has been modified; please apply your changes to the latest version", "Conflict"
            )
        _merge(found, patch)
        if expected is not None:
            metadata["resourceVersion"] = f"{expected}x"
        self.changed()
        return _json(found)

    def _deleted(self, resource: Resource, namespace: str, name: str) -> Answer:
        kind = resource.kind
        if not self._delete(Ref(kind.group, kind.kind, namespace, name, kind.version)):
            return _missing(resource, name)
        self.changed()
        return _json({"kind": "Status", "status": "Success"})

    def _evicted(self, call: Call, resource: Resource, namespace: str, name: str) -> Answer:
        if name in self.blocked:
            causes = [{"reason": "DisruptionBudget", "message": self.blocked[name]}]
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            return status(429, message, "TooManyRequests", causes)
        if call.query.get("dryRun"):
            return _json({"kind": "Status", "status": "Success"})
        return self._deleted(resource, namespace, name)

    def _find(self, resource: Resource, namespace: str, name: str) -> Document | None:
        kind = (resource.kind.group, resource.kind.kind)
        inside = namespace if resource.namespaced else ""
        for one in self._live():
            if (_kind(one), one["metadata"].get("namespace", ""), one["metadata"]["name"]) == (kind, inside, name):
                return one
        return None


def _kind(document: Document) -> tuple[str, str]:
    return document["apiVersion"].rpartition("/")[0], document["kind"]


def _name(document: Document) -> str:
    return f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"


def _formed(document: Document, call: Call) -> Document:
    if "as=PartialObjectMetadata" not in call.headers.get("accept", ""):
        return document
    return {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": document["metadata"]}


def _labelled(document: Document, selector: str) -> bool:
    labels = document["metadata"].get("labels") or {}
    if " in (" in selector:
        key, _, values = selector.partition(" in (")
        return labels.get(key) in values.rstrip(")").split(",")
    wanted = [part.partition("=") for part in selector.split(",") if part]
    return all(labels.get(key) == value for key, _, value in wanted)


def _fielded(document: Document, selector: str) -> bool:
    for part in filter(None, selector.split(",")):
        path, _, wanted = part.partition("=")
        value: Any = document
        for key in path.split("."):
            value = (value or {}).get(key)
        if str(value) != wanted:
            return False
    return True


def _merge(live: Document, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            live.pop(key, None)
        elif isinstance(value, dict) and isinstance(live.get(key), dict):
            _merge(live[key], value)
        else:
            live[key] = value


def _line(kind: str, document: Document) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def _json(document: Document) -> Answer:
    return Answer(body=json.dumps(document).encode(), headers={"Content-Type": "application/json"})


def _missing(resource: Resource, name: str) -> Answer:
    return status(404, f'{resource.plural} "{name}" not found', "NotFound")


def status(code: int, message: str, reason: str = "", causes: list[dict[str, str]] | None = None) -> Answer:
    details = {"details": {"causes": causes}} if causes else {}
    body = {"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": reason, **details}
    return Answer(status=code, body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
