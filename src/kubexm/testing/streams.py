"""Streams of an in-memory host: a pair of queues for each connection, and a server that is a coroutine of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from kubexm.connector import Attachment, ByteStream
from kubexm.errors import ForwardingDisabled, StreamError

__all__ = ["MemoryStreams", "Server"]

Server = Callable[[ByteStream], Coroutine[Any, Any, None]]
A = TypeVar("A", bound=Attachment)


class _End:
    """One end of an in-memory connection."""

    def __init__(self) -> None:
        self.peer: _End = self
        self._data = bytearray()
        self._closed = False
        self._news = asyncio.Event()

    async def receive(self, most: int = 65536) -> bytes:
        while not self._data and not self._closed:
            self._news.clear()
            await self._news.wait()
        taken = bytes(self._data[:most])
        del self._data[:most]
        return taken

    async def send(self, data: bytes) -> None:
        if self._closed or self.peer._closed:
            raise BrokenPipeError("the other end of this stream is closed")
        self.peer._data += data
        self.peer._news.set()

    async def aclose(self) -> None:
        for end in (self, self.peer):
            end._closed = True
            end._news.set()


class MemoryStreams:
    """The streams through an in-memory host; `opened` lists where they led, `changes` what was changed over them."""

    def __init__(self, host: str, fenced: Callable[[], None]) -> None:
        self._host = host
        self._fenced = fenced
        self._servers: dict[tuple[str, int], Server] = {}
        self._attached: dict[type[Attachment], Attachment] = {}
        self._serving: dict[asyncio.Task[None], _End] = {}
        self.forwards = False
        """True once a server was named."""
        self.opened: list[tuple[str, int]] = []
        self.changes: list[str] = []

    def listen(self, address: str, port: int, server: Server) -> None:
        """Streams to this address lead to `server`."""
        self._servers[address, port] = server
        self.forwards = True

    def stop(self, address: str, port: int) -> None:
        """The server at this address is gone, and its connections with it."""
        self._servers.pop((address, port), None)
        for task in tuple(self._serving):
            task.cancel()

    async def open(self, address: str, port: int) -> ByteStream:
        """A connection to a server that was named."""
        self.opened.append((address, port))
        if not self.forwards:
            raise ForwardingDisabled(f"sshd refuses to forward to {address}:{port}", host=self._host)
        if (address, port) not in self._servers:
            raise StreamError(f"no connection to {address}:{port}: Connection refused", host=self._host)
        near, far = _End(), _End()
        near.peer, far.peer = far, near
        task = asyncio.get_running_loop().create_task(self._serve(self._servers[address, port], far))
        self._serving[task] = far
        task.add_done_callback(lambda task: self._serving.pop(task, None))
        return near

    @asynccontextmanager
    async def exchange(self, what: str, *, changes: bool = False) -> AsyncIterator[None]:
        """Compares the fence before a change."""
        if changes:
            self._fenced()
        yield
        if changes:
            self.changes.append(what)

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        """The attachment of this kind."""
        if kind not in self._attached:
            self._attached[kind] = make()
        return cast("A", self._attached[kind])

    async def aclose(self) -> None:
        """Closes attachments, then ends every server that still serves."""
        attached, self._attached = list(self._attached.values()), {}
        for attachment in attached:
            await attachment.aclose()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, server: Callable[[ByteStream], Awaitable[None]], stream: _End) -> None:
        try:
            await server(stream)
        finally:
            await stream.aclose()
