"""Talks to one registry (API version 2): manifests, blobs and uploads, with its authentication and with retries."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from kubexm.assets.oci import DOCKER_IMAGE, DOCKER_LIST, OCI_IMAGE, OCI_INDEX
from kubexm.assets.registry.access import Endpoint
from kubexm.assets.registry.auth import Authenticator
from kubexm.assets.transfer import Damaged, NotThere, Retry, check_status, following, transport_errors
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = ["RegistrySession"]

_ACCEPT = f"{OCI_INDEX}, {OCI_IMAGE}, {DOCKER_LIST}, {DOCKER_IMAGE}"
_MAX_MANIFEST = 4 * 1024 * 1024
_GOOD = frozenset({200})


class RegistrySession:
    """A registry, as one of its users sees it."""

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, *, retry: Retry | None = None) -> None:
        self.endpoint = endpoint
        self.retry = retry or Retry()
        self._client = client
        self._follow = following(client)
        self._auth = Authenticator(client, endpoint.url, endpoint.credentials)

    def scope(self, repository: str, *, push: bool = False, mount_from: str = "") -> str:
        """What a token must allow."""
        wanted = f"repository:{repository}:{'pull,push' if push else 'pull'}"
        return f"{wanted} repository:{mount_from}:pull" if mount_from else wanted

    def url(self, repository: str, rest: str) -> str:
        """An address of the API."""
        return f"{self.endpoint.url}/v2/{repository}/{rest}"

    async def check(self) -> None:
        """Passes if a registry answers there, whether or not it knows us yet; else says what is wrong, once."""
        url = f"{self.endpoint.url}/v2/"

        async def work() -> int:
            async with transport_errors():
                response = await self._client.get(url)
            if response.status_code not in {200, 401, 403}:
                check_status(response, url, good=_GOOD)
            return response.status_code

        try:
            await self.retry(work, f"the registry {self.endpoint.host} could not be reached")
        except NotThere:
            raise AssetError(
                f"{self.endpoint.host} does not look like a registry: it has no /v2/",
                hint="Name the registry's host and port, and its path as the prefix.",
            ) from None

    async def manifest(self, repository: str, target: str) -> bytes:
        """The manifest or index under a tag or digest, checked against the digest."""
        url, scope = self.url(repository, f"manifests/{target}"), self.scope(repository)

        async def work() -> bytes:
            async with self.get(scope)(url, {"Accept": _ACCEPT}) as response:
                check_status(response, url, good=_GOOD)
                parts, size = [], 0
                async for chunk in response.aiter_raw():
                    parts.append(chunk)
                    size += len(chunk)
                    if size > _MAX_MANIFEST:
                        raise Damaged(f"{url} is larger than any real manifest")
            return b"".join(parts)

        data = await self.retry(work, f"{url} could not be read")
        found = "sha256:" + hashlib.sha256(data).hexdigest()
        if target.startswith("sha256:") and found != target:
            raise Damaged(f"{url} is not what it should be: expected {target}, got {found}")
        return data

    def get(self, scope: str) -> _Getter:
        """Opens addresses of this registry for reading, with its authentication; redirects to storage are followed."""
        return _Getter(self, scope)

    async def send(
        self,
        method: str,
        url: str,
        scope: str,
        *,
        good: frozenset[int],
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """Sends a request whose answer is short; an answer that is not good raises Transient or an AssetError."""
        sent = self._auth.headers(scope)
        for last in (False, True):
            async with transport_errors():
                response = await self._client.request(method, url, headers={**(headers or {}), **sent}, content=content)
            if response.status_code != 401:
                break
            if last:
                raise self._auth.refused()
            sent = await self._auth.answer(response, scope, sent)
        if response.status_code not in good:
            detail = _registry_error(response)
            if detail and 400 <= response.status_code < 500 and response.status_code not in {404, 408, 425, 429}:
                raise AssetError(f"the registry {self.endpoint.host} refuses {method} {_path(url)}: {detail}")
            check_status(response, url, good=good)
        return response

    @contextlib.asynccontextmanager
    async def _open(self, url: str, headers: Mapping[str, str], scope: str) -> AsyncIterator[httpx.Response]:
        sent = self._auth.headers(scope)
        async with self._follow(url, {**headers, **sent}) as response:
            if response.status_code != 401:
                yield response
                return
            sent = await self._auth.answer(response, scope, sent)
        async with self._follow(url, {**headers, **sent}) as response:
            if response.status_code == 401:
                raise self._auth.refused()
            yield response


class _Getter:
    """An Opener for one scope."""

    def __init__(self, session: RegistrySession, scope: str) -> None:
        self._session = session
        self._scope = scope

    def __call__(self, url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[httpx.Response]:
        return self._session._open(url, headers, self._scope)


def _registry_error(response: httpx.Response) -> str:
    import httpx

    try:
        errors = response.json()["errors"]
        return "; ".join(f"{error.get('code', '')} {error.get('message', '')}".strip() for error in errors)
    except (ValueError, KeyError, TypeError, AttributeError, httpx.ResponseNotRead):
        return ""


def _path(url: str) -> str:
    import httpx

    return httpx.URL(url).path
