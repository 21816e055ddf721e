"""The API through kubectl on a control plane, for hosts whose sshd forwards no connections.

Each request takes a process on the host. What kubectl says in words is turned back into the statuses it was told.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from kubexm.components.api.credentials import NO_CREDENTIALS
from kubexm.components.api.documents import Ref
from kubexm.components.api.failures import failure_of
from kubexm.components.api.kubectl import CACHE, is_transient, list_of
from kubexm.components.api.requests import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response
from kubexm.connector import Command, CommandResult, Connector, shell
from kubexm.connector.base import Stream
from kubexm.errors import ApiUnavailable, UsageError

__all__ = ["KubectlServer"]

_RAW: Final = {"GET": "get", "POST": "create", "DELETE": "delete"}
_PATCHES: Final = {MERGE_PATCH: "merge", STRATEGIC_PATCH: "strategic", JSON_PATCH: "json"}
_STATUS: Final = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Expired": 410,
    "Gone": 410,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
}
_SAID: Final = re.compile(r"(?s)Error from server(?: \((\w+)\))?: (.*)")
_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?"
)


class KubectlServer:
    """The API server of a control plane, through kubectl there."""

    def __init__(self, connector: Connector, kubeconfig: str) -> None:
        self._connector = connector
        self._kubeconfig = kubeconfig

    @property
    def host(self) -> str:
        """The control plane."""
        return self._connector.host

    async def send(self, request: Request) -> Response:
        """The answer, as far as kubectl tells it: of a failure its status, reason and message."""
        result = await self._execute(self._command(request, _words(request)))
        response = self._response(request, result)
        if request.changes and not response.ok:
            raise failure_of(self.host, request, response)
        return response

    async def get_all(self, requests: Sequence[Request]) -> list[Response]:
        """Single objects, all with one process."""
        refs = [request.ref for request in requests if request.ref is not None]
        if len(refs) != len(requests):
            return list(await asyncio.gather(*(self.send(request) for request in requests)))
        words = ("get", "--ignore-not-found", "--show-managed-fields", "-o", "json", "-f", "-")
        whole = Request(method="GET", path="", what="get objects", timeout=requests[0].timeout)
        stdin = list_of(ref.stub() for ref in refs)
        response = self._response(whole, await self._execute(self._command(whole, words, stdin)))
        if not response.ok:
            return [response for _ in requests]
        data = json.loads(response.body) if response.body.strip() else {}
        found = [(Ref.of(item), item) for item in data.get("items", [data] if data else [])]
        return [_answer(ref, found) for ref in refs]

    async def apply(
        self, documents: Sequence[Mapping[str, Any]], query: Sequence[tuple[str, str]]
    ) -> list[dict[str, Any]]:
        """Server-side apply of all, with one process."""
        what = "apply " + ", ".join(str(Ref.of(document)) for document in documents)
        request = Request(method="PATCH", path="", query=tuple(query), content_type=APPLY, what=what, timeout=60.0)
        words = (*_apply_words(dict(query)), "--show-managed-fields", "-o", "json")
        command = self._command(request, words, list_of(documents), told=what)
        response = self._response(request, await self._execute(command))
        if not response.ok:
            raise failure_of(self.host, request, response)
        data = response.json
        found = [(Ref.of(item), item) for item in data.get("items", [data])]
        return [_answer(Ref.of(document), found).json for document in documents]

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """What kubectl prints while the request lasts."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()

        def take(stream: Stream, data: bytes) -> None:
            if stream == "stdout":
                queue.put_nowait(data)

        seconds = float(dict(request.query).get("timeoutSeconds", "600")) + 30.0
        words = ("--request-timeout", "0", "get", "--raw", request.target)
        command = Command(script=self._script(words), long=True, timeout=seconds, sink=take, display=request.what)
        running = asyncio.ensure_future(self._connector.execute(command))
        try:
            yield self._lines(request, running, queue)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _lines(
        self, request: Request, running: asyncio.Future[CommandResult], queue: asyncio.Queue[bytes]
    ) -> AsyncIterator[bytes]:
        rest = b""
        while not (running.done() and queue.empty()):
            taking = asyncio.ensure_future(queue.get())
            either: set[asyncio.Future[Any]] = {taking, running}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                taking.cancel()
            if not taking.done() or taking.cancelled():
                continue
            *whole, rest = (rest + taking.result()).split(b"\n")
            for line in whole:
                yield line
        response = self._response(request, running.result())
        if not response.ok:
            raise failure_of(self.host, request, response)
        if rest:
            yield rest

    async def _execute(self, command: Command) -> CommandResult:
        """What it prints, whole: a result keeps only so much of that."""
        pieces: list[bytes] = []

        def take(stream: Stream, data: bytes) -> None:
            if stream == "stdout":
                pieces.append(data)

        if command.changes:
            result = await self._connector.execute(replace(command, sink=take))
        else:
            result = await self._connector.execute(command)
            if result.truncated:
                result = await self._connector.execute(replace(command, sink=take))
        return replace(result, stdout=b"".join(pieces), truncated=False) if result.truncated else result

    def _command(
        self, request: Request, words: Sequence[str], stdin: bytes | None = None, *, told: str = ""
    ) -> Command:
        limit = f"{request.timeout:g}s"
        return Command(
            script=self._script(("--request-timeout", limit, *words)),
            stdin=request.content if stdin is None else stdin,
            changes=request.changes,
            long=request.changes,
            timeout=request.timeout + 10.0,
            display=request.what,
            told=told or (request.what if request.changes else ""),
        )

    def _script(self, words: Sequence[str]) -> str:
        # It ends in a moment: collecting garbage meanwhile would be a quarter of what it costs.
        return f"GOGC=400 {shell('kubectl', '--kubeconfig', self._kubeconfig, '--cache-dir', CACHE, *words)}"

    def _response(self, request: Request, result: CommandResult) -> Response:
        if result.ok:
            return Response(status=200, body=result.stdout)
        text = result.error_text.strip()
        said = _SAID.search(text)
        reason = (said.group(1) or "") if said else ""
        if reason in _STATUS and said is not None:
            status = {"kind": "Status", "reason": reason, "message": said.group(2).strip()}
            return Response(status=_STATUS[reason], body=json.dumps(status).encode())
        if "Apply failed with" in text:
            status = {"kind": "Status", "reason": "Conflict", "message": text.partition("\n")[0]}
            return Response(status=409, body=json.dumps(status).encode())
        if "no matches for kind" in text or "could not find the requested resource" in text:
            status = {"kind": "Status", "reason": "KindUnknown", "message": text}
            return Response(status=404, body=json.dumps(status).encode())
        if not is_transient(result) and result.exit_code != 127 and self._kubeconfig not in text:
            status = {"kind": "Status", "message": text}
            return Response(status=400, body=json.dumps(status).encode())
        missing = result.exit_code == 127 or self._kubeconfig in text
        raise ApiUnavailable(
            f"{request.what}: {text[-300:]}",
            host=self.host,
            reason=NO_CREDENTIALS if missing else "",
            hint="is the API server up? `crictl ps -a` and `journalctl -u kubelet` on this host tell more",
        )


def _words(request: Request) -> tuple[str, ...]:
    """What kubectl is to be called with."""
    if request.content_type == APPLY:
        return (*_apply_words(dict(request.query)), "--show-managed-fields", "-o", "json")
    if request.content_type in _PATCHES:
        return _patch_words(request)
    verb = _RAW.get(request.method)
    if verb is None:
        raise UsageError(f"kubectl cannot send {request.method} {request.path}")
    return (verb, "--raw", request.target, *(("-f", "-") if request.body is not None else ()))


def _apply_words(query: Mapping[str, str]) -> tuple[str, ...]:
    words = ["apply", "--server-side", "--field-manager", query["fieldManager"]]
    words += ["--force-conflicts"] if query.get("force") == "true" else []
    words += ["--dry-run=server"] if query.get("dryRun") else []
    words += ["--validate=strict" if query.get("fieldValidation") == "Strict" else "--validate=false"]
    return (*words, "-f", "-")


def _patch_words(request: Request) -> tuple[str, ...]:
    found = _PATH.fullmatch(request.path)
    if found is None:
        raise UsageError(f"{request.path} is not the path of an object")
    query, group = dict(request.query), found["group"]
    kind = f"{found['resource']}.{found['version']}.{group}" if group else found["resource"]
    words = ["patch", kind, found["name"], "--type", _PATCHES[request.content_type], "-o", "json"]
    words += ["--patch-file", "/dev/stdin", "--field-manager", query.get("fieldManager", "kubexm")]
    words += ["-n", found["namespace"]] if found["namespace"] else []
    words += ["--subresource", found["subresource"]] if found["subresource"] else []
    words += ["--dry-run=server"] if query.get("dryRun") else []
    return tuple(words)


def _answer(ref: Ref, found: Sequence[tuple[Ref, Any]]) -> Response:
    for other, item in found:
        if ref.means(other):
            return Response(status=200, body=json.dumps(item).encode())
    status = {"kind": "Status", "reason": "NotFound", "message": f"{ref} not found"}
    return Response(status=404, body=json.dumps(status).encode())
