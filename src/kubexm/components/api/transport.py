"""HTTP to the API server of a control plane, over streams of the connection to that host. Must not know Kubernetes.

Reads share one HTTP/2 connection, so that many take one round trip. Changes, watches and logs use HTTP/1.1 connections:
closing one is the only way to end a watch that every server understands.
"""

# ruff: noqa: ASYNC109 - time limits are part of httpcore's interface; here they are the caller's

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpcore

from kubexm.components.api.credentials import Credentials, read_credentials
from kubexm.components.api.failures import failure_of
from kubexm.components.api.requests import Request, Response
from kubexm.components.api.resources import Kind, Resource
from kubexm.connector import ByteStream, Command, Connector, Streams
from kubexm.errors import ApiError, ApiUnavailable, ForwardingDisabled, StreamError

__all__ = ["ApiSession", "ForwardedServer"]

_CONNECTIONS: Final = 4
_KEPT: Final = 300.0
"""Seconds for which an idle connection is kept."""
_READ: Final = 64 * 1024
_HOST: Final = 180.0
"""Seconds for a host to answer: longer than it takes to find out that the connection to it is lost."""
_GONE = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError, TimeoutError)


class _Stream(httpcore.AsyncNetworkStream):
    """A stream of a connector, as httpcore wants it. Time limits are the caller's."""

    def __init__(self, inner: ByteStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.receive(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            await self._inner.send(buffer)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        secure = _TlsStream(self._inner, ssl_context, server_hostname)
        try:
            await secure.handshake()
        except BaseException:
            await self.aclose()
            raise
        return secure


class _TlsStream(httpcore.AsyncNetworkStream):
    """TLS over a stream. One task may read while others write; cancelling any of them loses no bytes."""

    def __init__(self, inner: ByteStream, context: ssl.SSLContext, name: str | None) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._sending = asyncio.Lock()

    async def handshake(self) -> None:
        """Proves who both ends are; raises ssl.SSLError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            else:
                await self._flush()
                return

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            try:
                return self._tls.read(max_bytes)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._tls.write(buffer)
            await self._flush()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else None

    async def _fill(self) -> None:
        data = await self._inner.receive(_READ)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        async with self._sending:
            if self._outgoing.pending:
                await self._inner.send(self._outgoing.read())


class _Backend(httpcore.AsyncNetworkBackend):
    """Connections that start on the host."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._streams.open(host, port))

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise StreamError(f"streams lead to TCP ports, not to {path}")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Pools:
    """The connections to one API server, proven with one set of credentials."""

    def __init__(self, credentials: Credentials, streams: Streams) -> None:
        self.credentials = credentials
        self._changing = asyncio.Semaphore(_CONNECTIONS)
        # httpcore sets the protocols it offers on the context, so that each pool has one of its own.
        self._reads = httpcore.AsyncConnectionPool(
            ssl_context=credentials.ssl_context(),
            max_connections=_CONNECTIONS,
            keepalive_expiry=_KEPT,
            http2=True,
            network_backend=_Backend(streams),
        )
        self._others = httpcore.AsyncConnectionPool(
            ssl_context=credentials.ssl_context(), keepalive_expiry=_KEPT, network_backend=_Backend(streams)
        )

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._send(self._reads, request)
        async with self._changing:
            return await self._send(self._others, request)

    async def _send(self, pool: httpcore.AsyncConnectionPool, request: Request) -> Response:
        words = self._words(request)
        words["headers"]["Accept-Encoding"] = "gzip"  # a list of a thousand nodes is a tenth then
        response = await pool.request(**words, content=request.content)
        headers, body = _headers(response), response.content
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Response(status=response.status, body=body, headers=headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpcore.Response]:
        async with self._others.stream(**self._words(request), content=request.content) as response:
            yield response

    async def aclose(self) -> None:
        await self._reads.aclose()
        await self._others.aclose()

    def _words(self, request: Request) -> dict[str, Any]:
        headers = {"Host": self.credentials.authority, "Accept": request.accept, "User-Agent": "kubexm"}
        if self.credentials.token:
            headers["Authorization"] = f"Bearer {self.credentials.token.reveal()}"
        content = request.content
        if content is not None:
            headers |= {"Content-Type": request.content_type, "Content-Length": str(len(content))}
        name = self.credentials.server_name
        return {
            "method": request.method,
            "url": f"{self.credentials.url}{request.target}",
            "headers": headers,
            "extensions": {"sni_hostname": name} if name else {},
        }


class ApiSession:
    """What is kept for a control plane as long as the connection to it: credentials and connections."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._pools: dict[str, _Pools] = {}
        """By the path of the kubeconfig."""
        self._preparing = asyncio.Lock()
        self.resources: dict[Kind, Resource] = {}
        """Where this server has kinds that not every cluster has."""

    async def pools(self, connector: Connector, kubeconfig: str) -> _Pools:
        """The connections; the credentials are read from the host the first time."""
        async with self._preparing:
            if kubeconfig not in self._pools:
                self._pools[kubeconfig] = _Pools(await read_credentials(connector, kubeconfig), self._streams)
            return self._pools[kubeconfig]

    async def renew(self) -> None:
        """Forgets credentials and connections: the next request reads them anew."""
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.aclose()

    async def aclose(self) -> None:
        """The connection to the host is being closed."""
        await self.renew()


class ForwardedServer:
    """The API server of a control plane, over streams through that host."""

    def __init__(self, connector: Connector, kubeconfig: str) -> None:
        self._connector = connector
        self._kubeconfig = kubeconfig
        streams = connector.streams
        self.session = streams.attached(ApiSession, lambda: ApiSession(streams))

    @property
    def host(self) -> str:
        """The control plane."""
        return self._connector.host

    @property
    def usable(self) -> bool:
        """False once it is known that the host forwards no connections."""
        return self._connector.streams.forwards

    async def send(self, request: Request) -> Response:
        """The answer; credentials that are refused are read once more, since somebody may have renewed them."""
        async with self._connector.streams.exchange(request.what, changes=request.changes):
            response = await self._once(request)
            if response.status != 401:
                return _unless_failed_change(self.host, request, response)
            await self.session.renew()
            return _unless_failed_change(self.host, request, await self._once(request))

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        """The answers, asked for at the same time."""
        tasks = [asyncio.ensure_future(self.send(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer line by line."""
        async with self._connector.streams.exchange(request.what, changes=request.changes):
            stream = (await self._pools()).stream(request)
            try:
                async with asyncio.timeout(request.timeout):
                    response = await stream.__aenter__()
            except (*_GONE, StreamError) as error:
                await self._require_host(error)
                raise self._away(request, error) from error
            try:
                if response.status >= 400:
                    async with asyncio.timeout(request.timeout):
                        body = await response.aread()
                    whole = Response(status=response.status, body=body, headers=_headers(response))
                    raise failure_of(self.host, request, whole)
                yield self._lines(request, response)
            finally:
                await stream.__aexit__(None, None, None)

    async def _lines(self, request: Request, response: httpcore.Response) -> AsyncIterator[bytes]:
        rest = b""
        try:
            async for piece in response.aiter_stream():
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    yield line
        except _GONE as error:
            raise self._away(request, error) from error
        if rest:
            yield rest

    async def _once(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(request.timeout):
                try:
                    return await (await self._pools()).send(request)
                except (httpcore.NetworkError, httpcore.ProtocolError, ConnectionError):
                    # The server may have ended a connection that was kept: every request may be repeated.
                    return await (await self._pools()).send(request)
        except ssl.SSLError as error:
            await self.session.renew()
            raise self._away(request, error) from error
        except (*_GONE, StreamError) as error:
            await self._require_host(error)
            raise self._away(request, error) from error

    async def _require_host(self, error: Exception) -> None:
        """Raises ConnectionLost if it was the host that did not answer in time: then another one has to be asked."""
        if isinstance(error, TimeoutError):
            await self._connector.execute(Command(script=":", timeout=_HOST, display="check that the host answers"))

    async def _pools(self) -> _Pools:
        return await self.session.pools(self._connector, self._kubeconfig)

    def _away(self, request: Request, error: Exception) -> ApiError:
        if isinstance(error, ForwardingDisabled):
            raise error
        said = str(error) or type(error).__name__
        return ApiUnavailable(
            f"{request.what}: the API server does not answer: {said}",
            host=self.host,
            hint="is the API server up? `crictl ps -a` and `journalctl -u kubelet` on this host tell more",
        )


def _unless_failed_change(host: str, request: Request, response: Response) -> Response:
    """Leaves the exchange by an error where a change failed, so that it is not logged as done."""
    if request.changes and not response.ok:
        raise failure_of(host, request, response)
    return response


def _headers(response: httpcore.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
