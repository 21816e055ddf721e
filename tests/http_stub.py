"""HTTP servers for tests, over any byte stream: HTTP/1.1 by h11 and HTTP/2 by h2, both with answers that may go on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h2.config
import h2.connection
import h2.events
import h11

from kubexm.connector import ByteStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a client asks for."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What it is told. A body that is an iterator is sent piece by piece."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Call], Awaitable[Answer]]


def call_of(method: str, target: str, headers: Mapping[str, str], body: bytes, protocol: str) -> Call:
    parts = urlsplit(target)
    return Call(
        method=method,
        path=parts.path,
        query=dict(parse_qsl(parts.query)),
        headers=headers,
        body=body,
        protocol=protocol,
    )


async def serve_http1(stream: ByteStream, handle: Handler) -> None:
    """Answers one request after the other until the client closes."""
    connection = h11.Connection(h11.SERVER)
    while True:
        request, body = None, b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive())
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return
        assert request is not None
        headers = {name.decode(): value.decode() for name, value in request.headers}
        call = call_of(request.method.decode(), request.target.decode(), headers, body, "HTTP/1.1")
        answer = await handle(call)
        size = {"Content-Length": str(len(answer.body))} if isinstance(answer.body, bytes) else {}
        sent = [(name.encode(), value.encode()) for name, value in {**size, **answer.headers}.items()]
        await stream.send(connection.send(h11.Response(status_code=answer.status, headers=sent)) or b"")
        async for piece in _pieces(answer):
            await stream.send(connection.send(h11.Data(data=piece)) or b"")
        await stream.send(connection.send(h11.EndOfMessage()) or b"")
        if connection.our_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def serve_http2(stream: ByteStream, handle: Handler) -> None:
    """Answers requests at the same time until the client closes."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    connection.initiate_connection()
    asked: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    answering: set[asyncio.Task[None]] = set()
    await stream.send(connection.data_to_send())

    async def answer(number: int) -> None:
        headers = asked.pop(number)
        call = call_of(headers[":method"], headers[":path"], headers, bodies.pop(number, b""), "HTTP/2")
        found = await handle(call)
        sent = [(":status", str(found.status)), *((name.lower(), value) for name, value in found.headers.items())]
        connection.send_headers(number, sent)
        async for piece in _pieces(found):
            for start in range(0, len(piece), 16000):
                connection.send_data(number, piece[start : start + 16000])
                await stream.send(connection.data_to_send())
        connection.end_stream(number)
        await stream.send(connection.data_to_send())

    try:
        while data := await stream.receive():
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    asked[event.stream_id or 0] = {str(name): str(value) for name, value in event.headers or ()}
                elif isinstance(event, h2.events.DataReceived):
                    number = event.stream_id or 0
                    bodies[number] = bodies.get(number, b"") + (event.data or b"")
                    connection.acknowledge_received_data(event.flow_controlled_length or 0, number)
                elif isinstance(event, h2.events.StreamEnded):
                    task = asyncio.ensure_future(answer(event.stream_id or 0))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
                elif isinstance(event, h2.events.ConnectionTerminated):
                    return
            await stream.send(connection.data_to_send())
    finally:
        for task in tuple(answering):
            task.cancel()


async def _pieces(answer: Answer) -> AsyncIterator[bytes]:
    if isinstance(answer.body, bytes):
        if answer.body:
            yield answer.body
    else:
        async for piece in answer.body:
            yield piece


class _Socket:
    """A socket of a server, as a byte stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, most: int = 65536) -> bytes:
        return await self._reader.read(most)

    async def send(self, data: bytes) -> None:
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()


class HttpsServer:
    """An HTTPS server on 127.0.0.1 that wants a client certificate. `protocols`: what it offers, the best first."""

    def __init__(self, handle: Handler, context: ssl.SSLContext, *, protocols: tuple[str, ...] = ("h2", "http/1.1")):
        self._handle = handle
        self._context = context
        self._context.set_alpn_protocols(list(protocols))
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self.port = 0
        self.connections = 0

    async def start(self) -> None:
        """Listens, on the same port as before if it was stopped."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def cut(self) -> None:
        """Ends every connection there is now."""
        for task in tuple(self._serving):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        try:
            serve = serve_http2 if chosen == "h2" else serve_http1
            await serve(_Socket(reader, writer), self._handle)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()
