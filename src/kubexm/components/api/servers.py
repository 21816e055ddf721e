"""The API server of one control plane: over forwarded streams, or through kubectl where the host forwards none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubexm.components.api.documents import Ref
from kubexm.components.api.failures import failure_of
from kubexm.components.api.fallback import KubectlServer
from kubexm.components.api.requests import APPLY, Request, Response
from kubexm.components.api.resources import Kind, Resource, discovered, known_resource
from kubexm.connector import Connector
from kubexm.errors import ApiError, ApiNotFound, ForwardingDisabled

if TYPE_CHECKING:
    from kubexm.components.api.transport import ForwardedServer

__all__ = ["ApplyOptions", "ControlPlane"]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How objects are applied."""

    manager: str
    force: bool = True
    strict: bool = False
    dry_run: bool = False

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """For the URL."""
        wanted = [("fieldManager", self.manager), ("fieldValidation", "Strict" if self.strict else "Ignore")]
        wanted += [("force", "true")] if self.force else []
        return (*wanted, *([("dryRun", "All")] if self.dry_run else []))


class ControlPlane:
    """One candidate. All methods raise ApiError; ApiUnavailable if its server does not answer."""

    def __init__(self, connector: Connector, kubeconfig: str) -> None:
        self._kubectl = KubectlServer(connector, kubeconfig)
        self._forwarded = _forwarded(connector, kubeconfig)

    @property
    def host(self) -> str:
        """The control plane."""
        return self._kubectl.host

    async def resource(self, kind: Kind) -> Resource:
        """Where it has a kind; ApiNotFound with the reason KindUnknown if it does not know it."""
        known = known_resource(kind) or self._forwarded.session.resources.get(kind)
        if known is not None:
            return known
        request = Request(method="GET", path=kind.root, what=f"get the kinds of {kind.api_version}")
        response = await self.send(request)
        if not response.ok and response.status != 404:
            raise failure_of(self.host, request, response)
        found = discovered(kind, response.json) if response.ok else None
        if found is None:
            raise ApiNotFound(
                f'no matches for kind "{kind.kind}" in version "{kind.api_version}"',
                host=self.host,
                status=404,
                reason="KindUnknown",
                hint="the cluster does not know this kind: apply its CustomResourceDefinition first",
            )
        self._forwarded.session.resources[kind] = found
        return found

    async def checked(self, request: Request) -> Response:
        """The answer to a request that succeeded; ApiError for any other."""
        response = await self.send(request)
        if not response.ok:
            raise failure_of(self.host, request, response)
        return response

    async def send(self, request: Request) -> Response:
        """The answer, whatever its status; ApiError for a change that failed."""
        if self._forwarded.usable:
            try:
                return await self._forwarded.send(request)
            except ForwardingDisabled:
                pass
        return await self._kubectl.send(request)

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        """The answers to reads of single objects, in their order."""
        if requests and self._forwarded.usable:
            try:
                return await self._forwarded.send_all(requests)
            except ForwardingDisabled:
                pass
        return await self._kubectl.get_all(requests) if requests else []

    async def apply(
        self, documents: Sequence[Mapping[str, Any]], options: ApplyOptions, done: MutableMapping[int, Document]
    ) -> None:
        """Applies objects at the same time; `done` gets each by its number, also if others fail."""
        numbers = [number for number in range(len(documents)) if number not in done]
        if self._forwarded.usable:
            try:
                return await self._apply(documents, numbers, options, done)
            except ForwardingDisabled:
                pass
        left = [documents[number] for number in numbers if number not in done]
        done.update(zip(numbers, await self._kubectl.apply(left, options.query), strict=True))
        return None

    async def _apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        numbers: Sequence[int],
        options: ApplyOptions,
        done: MutableMapping[int, Document],
    ) -> None:
        async def one(number: int) -> None:
            ref = Ref.of(documents[number])
            resource = await self.resource(Kind.of(ref))
            request = Request(
                method="PATCH",
                path=resource.path(ref.namespace, ref.name),
                query=options.query,
                body=_placed(documents[number], resource),
                content_type=APPLY,
                what=f"apply {ref}",
            )
            response = await self._forwarded.send(request)
            if not response.ok:
                raise failure_of(self.host, request, response)
            done[number] = response.json

        results = await asyncio.gather(*map(one, numbers), return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            # An error that is final, if there is one: what is only late would hide it.
            raise next((error for error in failed if not _is_late(error)), failed[0])

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer line by line as it arrives."""
        begun = False
        if self._forwarded.usable:
            try:
                async with self._forwarded.lines(request) as lines:
                    begun = True
                    yield lines
            except ForwardingDisabled:
                if begun:
                    raise
            else:
                return
        async with self._kubectl.lines(request) as lines:
            yield lines


def _forwarded(connector: Connector, kubeconfig: str) -> ForwardedServer:
    # Importing an HTTP client takes a tenth of a second: only those who ask the API pay for it.
    from kubexm.components.api.transport import ForwardedServer

    return ForwardedServer(connector, kubeconfig)


def _is_late(error: BaseException) -> bool:
    from kubexm.components.api.failures import is_later, is_passing

    return isinstance(error, ApiError) and (is_passing(error) or is_later(error))


def _placed(document: Mapping[str, Any], resource: Resource) -> Mapping[str, Any]:
    """The object without the namespace that objects of the cluster do not have."""
    metadata = document["metadata"]
    if resource.namespaced or "namespace" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}
