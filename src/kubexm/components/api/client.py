"""The API of a cluster: one client for every component, through whichever control plane answers.

Objects are plain data. Requests go over the SSH connection to a control plane's own API server, or through kubectl on
that host where sshd forwards no connections. Errors are typed (`kubexm.errors.ApiError`). A server that is away or
busy is tried again, and another control plane's in its place; every request may be repeated safely.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, TypeVar

from kubexm.components.api.candidates import FIRST_WAIT, Candidates
from kubexm.components.api.documents import Ref
from kubexm.components.api.failures import failure_of, is_later
from kubexm.components.api.kubectl import ADMIN_CONF, FIELD_MANAGER
from kubexm.components.api.requests import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response
from kubexm.components.api.resources import Kind, Resource
from kubexm.components.api.selection import Event, Selection, event_of, place_of
from kubexm.components.api.servers import ApplyOptions, ControlPlane
from kubexm.connector import Connector
from kubexm.errors import ApiExpired, ApiNotFound, ApiUnavailable
from kubexm.runtime import StepContext

__all__ = ["Event", "KubeClient", "Selection", "kube_client"]

T = TypeVar("T")
_PAGE: Final = 500
_PARTIAL: Final = "application/json;as={form};g=meta.k8s.io;v=v1,application/json"
_PATCHES: Final = {"merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH, "json": JSON_PATCH}
Document = dict[str, Any]
Documents = list[Document]


def kube_client(ctx: StepContext, *, patience: float = 5.0) -> KubeClient:
    """The client of a step: through the host it acts from, which is a control plane."""
    return KubeClient([ctx.host.connector], patience=patience)


class KubeClient:
    """Asks and changes the API. `patience`: seconds to go on while no server answers; each call may give its own."""

    def __init__(
        self, control_planes: Sequence[Connector], *, patience: float = 5.0, kubeconfig: str = ADMIN_CONF
    ) -> None:
        """`control_planes`: the hosts to go through, the preferred one first; each has the kubeconfig."""
        self._candidates = Candidates(control_planes, kubeconfig, patience)

    # reading

    async def get(self, ref: Ref, *, patience: float | None = None) -> Document:
        """One object; ApiNotFound if it is not there."""
        response = await self._candidates.call(lambda server: self._get(server, ref), patience)
        return _document(response)

    async def find(self, ref: Ref, *, patience: float | None = None) -> Document | None:
        """One object, or None."""
        try:
            return await self.get(ref, patience=patience)
        except ApiNotFound:
            return None

    async def get_many(
        self, refs: Sequence[Ref], *, metadata_only: bool = False, patience: float | None = None
    ) -> Documents:
        """Those of these objects that are there, asked for at the same time. `metadata_only`: without spec and status.

        A kind that the cluster does not know has no objects.
        """

        async def ask(server: ControlPlane) -> Documents:
            requests: list[Request] = []
            for ref in refs:
                try:
                    resource = await server.resource(Kind.of(ref))
                except ApiNotFound:
                    continue
                requests.append(_get_request(resource, ref, metadata_only=metadata_only))
            found = []
            for request, response in zip(requests, await server.send_all(requests), strict=True):
                if response.ok:
                    found.append(_named(response, request.ref))
                elif response.status != 404:
                    raise failure_of(server.host, request, response)
            return found

        return await self._candidates.call(ask, patience)

    async def list(
        self, selection: Selection, *, metadata_only: bool = False, page: int = _PAGE, patience: float | None = None
    ) -> Documents:
        """Every object of a selection."""
        return [item async for item in self.pages(selection, metadata_only=metadata_only, page=page, patience=patience)]

    async def pages(
        self, selection: Selection, *, metadata_only: bool = False, page: int = _PAGE, patience: float | None = None
    ) -> AsyncIterator[Document]:
        """Every object of a selection, asked for `page` at a time, so that a large cluster is never whole in memory.

        A list that expires half way (410) is begun anew and told without pages; nothing is told twice.
        """
        told: set[str] = set()
        marker = ""
        while True:
            try:
                found = await self._page(selection, page, marker, metadata_only=metadata_only, patience=patience)
            except ApiExpired:
                if not marker:
                    raise
                found = await self._page(selection, 0, "", metadata_only=metadata_only, patience=patience)
            for item in found["items"]:
                if item["metadata"]["uid"] not in told:
                    told.add(item["metadata"]["uid"])
                    yield item
            marker = found["metadata"].get("continue") or ""
            if not marker:
                return

    async def text(self, path: str, *, patience: float | None = None, within: float = 20.0) -> str:
        """What a path such as /readyz answers; ApiError with the whole text if that is no success."""
        request = Request(method="GET", path=path, accept="*/*", what=f"get {path}", timeout=within)
        return (await self._send(request, patience)).body.decode(errors="replace")

    async def probe(self, path: str, *, within: float = 5.0) -> tuple[bool, str]:
        """Whether a path such as /readyz answers with a success, asked once, and all that it says."""
        request = Request(method="GET", path=path, accept="*/*", what=f"get {path}", timeout=within)
        try:
            response = await self._candidates.call(lambda server: server.send(request), 0.0)
        except ApiUnavailable as error:
            return False, error.message
        return response.ok, response.body.decode(errors="replace")

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        tail: int | None = None,
        previous: bool = False,
        patience: float | None = None,
    ) -> str:
        """The last lines a container wrote."""
        given = {"container": container, "tailLines": "" if tail is None else str(tail)}
        query = tuple((name, value) for name, value in given.items() if value)
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        query += (("previous", "true"),) if previous else ()
        request = Request(method="GET", path=path, query=query, accept="*/*", what=f"logs of pod {namespace}/{pod}")
        return (await self._send(request, patience)).body.decode(errors="replace")

    # watching

    async def watch(
        self, selection: Selection, *, version: str, within: float, patience: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """What happens to a selection from a resourceVersion on, for `within` seconds.

        A watch that breaks goes on where it was, through another control plane if need be. ApiExpired if the version is
        too old by now: list again.
        """
        until = time.monotonic() + within
        while (left := until - time.monotonic()) > 0:
            async with self._watching(selection, version, left, patience) as lines:
                while (line := await _next(lines, until - time.monotonic())) is not None:
                    event = event_of(line, selection)
                    version = event.object["metadata"].get("resourceVersion") or version
                    if event.type != "BOOKMARK":
                        yield event
            # It ended by itself, or broke.
            await asyncio.sleep(min(FIRST_WAIT, max(0.0, until - time.monotonic())))

    async def follow(
        self, selection: Selection, *, within: float, patience: float | None = None
    ) -> AsyncGenerator[Mapping[tuple[str, str], Document], None]:
        """Every object of a selection by (namespace, name): as they are, and again after each change, for a while."""
        until = time.monotonic() + within
        while (left := until - time.monotonic()) > 0:
            found = await self._page(selection, 0, "", metadata_only=False, patience=patience)
            objects = {place_of(item): item for item in found["items"]}
            yield objects
            version = found["metadata"]["resourceVersion"]
            try:
                async with aclosing(self.watch(selection, version=version, within=left, patience=patience)) as events:
                    async for event in events:
                        if event.type == "DELETED":
                            objects.pop(place_of(event.object), None)
                        else:
                            objects[place_of(event.object)] = event.object
                        yield objects
            except ApiExpired:
                continue

    async def until(
        self,
        selection: Selection,
        done: Callable[[Mapping[tuple[str, str], Document]], bool],
        *,
        within: float,
        patience: float | None = None,
    ) -> bool:
        """Waits until `done` says so of the objects of a selection; False if it does not within that time."""
        async with aclosing(self.follow(selection, within=within, patience=patience)) as states:
            async for objects in states:
                if done(objects):
                    return True
        return False

    # changing

    async def apply(
        self,
        *waves: Sequence[Mapping[str, Any]],
        force: bool = True,
        manager: str = FIELD_MANAGER,
        strict: bool = False,
        dry_run: bool = False,
        patience: float | None = None,
    ) -> Documents:
        """Server-side apply, wave by wave, the objects of each at the same time; as the cluster has them then.

        `force`: fields that somebody else changed are taken over; otherwise ApiConflict names them. `strict`: a field
        that the schema does not know is an error. What needs a kind or a namespace that comes later is tried again.
        """
        options = ApplyOptions(manager=manager, force=force, strict=strict, dry_run=dry_run)
        done: Documents = []
        for wave in waves:
            applied: dict[int, Document] = {}
            await self._candidates.call(partial(_apply, wave, options, applied), patience, also=is_later)
            done += [applied[number] for number in range(len(wave))]
        return done

    async def patch(
        self,
        ref: Ref,
        patch: Any,
        *,
        form: Literal["merge", "strategic", "json"] = "merge",
        subresource: str = "",
        manager: str = FIELD_MANAGER,
        dry_run: bool = False,
        patience: float | None = None,
    ) -> Document:
        """Changes part of an object. A merge patch may name its resourceVersion: ApiConflict if that has changed."""
        query = (("fieldManager", manager), *((("dryRun", "All"),) if dry_run else ()))

        async def change(server: ControlPlane) -> Response:
            resource = await server.resource(Kind.of(ref))
            request = Request(
                method="PATCH",
                path=resource.path(ref.namespace, ref.name, subresource),
                query=query,
                body=patch,
                content_type=_PATCHES[form],
                what=f"patch {ref}",
            )
            return await server.checked(request)

        return _document(await self._candidates.call(change, patience))

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        dry_run: bool = False,
        patience: float | None = None,
    ) -> bool:
        """Begins to delete an object; False if it is not there. `uid`: ApiConflict if another one has its name now."""

        async def remove(server: ControlPlane) -> Response:
            resource = await server.resource(Kind.of(ref))
            request = Request(
                method="DELETE",
                path=resource.path(ref.namespace, ref.name),
                query=(("dryRun", "All"),) if dry_run else (),
                body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
                | _options(uid, grace),
                what=f"delete {ref}",
            )
            return await server.checked(request)

        try:
            await self._candidates.call(remove, patience)
        except ApiNotFound:
            return False
        return True

    async def evict(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str = "",
        grace: int | None = None,
        dry_run: bool = False,
        patience: float | None = None,
    ) -> bool:
        """Begins to evict a pod; False if it is not there any more.

        EvictionBlocked, whose `causes` name the PodDisruptionBudget, if that does not allow it now.
        """
        request = Request(
            method="POST",
            path=f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction",
            query=(("dryRun", "All"),) if dry_run else (),
            body={
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod, "namespace": namespace},
                "deleteOptions": _options(uid, grace),
            },
            what=f"evict pod {namespace}/{pod}",
        )
        try:
            await self._send(request, patience)
        except ApiNotFound:
            return False
        return True

    # how

    async def _send(self, request: Request, patience: float | None) -> Response:
        return await self._candidates.call(lambda server: server.checked(request), patience)

    async def _get(self, server: ControlPlane, ref: Ref) -> Response:
        resource = await server.resource(Kind.of(ref))
        return await server.checked(_get_request(resource, ref, metadata_only=False))

    async def _page(
        self, selection: Selection, limit: int, marker: str, *, metadata_only: bool, patience: float | None
    ) -> Document:
        query = (*selection.query, *((("limit", str(limit)),) if limit else ()))
        query += (("continue", marker),) if marker else ()

        async def ask(server: ControlPlane) -> Response:
            resource = await server.resource(selection.kind)
            form = "PartialObjectMetadataList"
            request = Request(
                method="GET",
                path=resource.path(selection.namespace),
                query=query,
                accept=_PARTIAL.format(form=form) if metadata_only else JSON,
                what=f"list {selection}",
            )
            return await server.checked(request)

        found = _document(await self._candidates.call(ask, patience))
        # Items of a list do not name their kind, or name that of the form in which they are told.
        kind = {"apiVersion": selection.kind.api_version, "kind": selection.kind.kind}
        return found | {"items": [{**item, **kind} for item in found.get("items") or ()]}

    @asynccontextmanager
    async def _watching(
        self, selection: Selection, version: str, within: float, patience: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        seconds = str(max(1, round(within)))
        query = (("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", seconds))

        async def start(server: ControlPlane) -> tuple[Any, AsyncIterator[bytes]]:
            resource = await server.resource(selection.kind)
            request = Request(
                method="GET",
                path=resource.path(selection.namespace),
                query=(*selection.query, *query, ("resourceVersion", version)),
                what=f"watch {selection}",
            )
            watching = server.lines(request)
            return watching, await watching.__aenter__()

        watching, lines = await self._candidates.call(start, patience)
        try:
            yield lines
        finally:
            await watching.__aexit__(None, None, None)


async def _apply(
    wave: Sequence[Mapping[str, Any]], options: ApplyOptions, applied: dict[int, Document], server: ControlPlane
) -> None:
    await server.apply(wave, options, applied)


def _get_request(resource: Resource, ref: Ref, *, metadata_only: bool) -> Request:
    return Request(
        method="GET",
        path=resource.path(ref.namespace, ref.name),
        accept=_PARTIAL.format(form="PartialObjectMetadata") if metadata_only else JSON,
        what=f"get {ref}",
        ref=ref,
    )


def _options(uid: str, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
    return options | ({"preconditions": {"uid": uid}} if uid else {})


def _named(response: Response, ref: Ref | None) -> Document:
    """An object with its own kind: that of metadata alone names another."""
    found = _document(response)
    return found if ref is None else found | {"apiVersion": ref.api_version, "kind": ref.kind}


def _document(response: Response) -> Document:
    found: Document = response.json
    return found


async def _next(lines: AsyncIterator[bytes], within: float) -> bytes | None:
    """The next line of a stream; None at its end, when it breaks, and when the time is over."""
    try:
        async with asyncio.timeout(max(0.0, within)):
            return await anext(lines)
    except (TimeoutError, StopAsyncIteration, ApiUnavailable):
        return None
