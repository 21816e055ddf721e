"""Byte streams through a host: TCP connections that the host opens for us. Must not know what is said over them.

For programs on a host that are asked many questions, such as an API server: a request over a stream that is open costs
one round trip and no process on the host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeVar, cast

from kubexm.connector.link import Link, LinkLost, StreamRefused
from kubexm.errors import ForwardingDisabled, HostError, StreamError

__all__ = ["Attachment", "ByteStream", "HostStreams", "NoStreams", "Streams"]

_TRIES = 3
_FENCE_FRESH = 1.0
"""Seconds for which a lease that was compared with the fence need not be compared again."""
_READ = 64 * 1024


class ByteStream(Protocol):
    """A TCP connection that starts on the host. Its methods raise ConnectionError once it is broken."""

    async def receive(self, most: int = _READ) -> bytes:
        """The next bytes, at least one; empty at the end. Cancelling it loses nothing."""
        ...

    async def send(self, data: bytes) -> None:
        """Sends all of it."""
        ...

    async def aclose(self) -> None:
        """Closes it; may be called again."""
        ...


class Attachment(Protocol):
    """What is kept for as long as a connection to a host, such as a pool of connections over its streams."""

    async def aclose(self) -> None:
        """The connection to the host is being closed."""
        ...


A = TypeVar("A", bound=Attachment)


class Streams(Protocol):
    """The streams through one host."""

    @property
    def forwards(self) -> bool:
        """False once it is known that the host opens no connections for us."""
        ...

    async def open(self, address: str, port: int) -> ByteStream:
        """A connection that the host opens to an address as seen from there.

        Raises ForwardingDisabled where sshd forbids it, StreamError where nobody answers at that address, and
        ConnectError or ConnectionLost where the host itself cannot be reached.
        """
        ...

    def exchange(self, what: str, *, changes: bool = False) -> AbstractAsyncContextManager[None]:
        """To be entered around every request over a stream: the connector cannot tell by itself what bytes do.

        A change is refused in a precheck (AssertionError) and where a newer run holds the lease (FencedError), and is
        logged as `what` once the block ends well.
        """
        ...

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        """The attachment of this kind: made on first use, and closed with the connection to the host."""
        ...


class _Counted:
    """A stream whose beginning is counted: the first thing that is sent, a handshake, waits for an answer.

    What follows is counted by `exchange`: not all that is sent later is waited for.
    """

    __slots__ = ("_begun", "_inner", "_streams")

    def __init__(self, streams: HostStreams, inner: ByteStream) -> None:
        self._streams = streams
        self._inner = inner
        self._begun = False

    async def receive(self, most: int = _READ) -> bytes:
        return await self._inner.receive(most)

    async def send(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._streams.round_trips += 1
        await self._inner.send(data)

    async def aclose(self) -> None:
        self._streams.forget(self)
        await self._inner.aclose()


class HostStreams:
    """The streams through a real host, whatever the link to it."""

    def __init__(self, link: Link, online: Callable[[bool], Awaitable[None]], fenced: Callable[[], Awaitable[None]]):
        """`online` connects (True: after a break); `fenced` raises FencedError if a newer run holds the lease."""
        self._link = link
        self._online = online
        self._fenced = fenced
        self._fence_seen = 0.0
        self._attached: dict[type[Attachment], Attachment] = {}
        self._open: set[_Counted] = set()
        self._reading = False
        """A read was counted, and what is sent at the same moment is not."""
        self.forwards = True
        """False once the host has refused to open a connection for us."""
        self.round_trips = 0
        """Of opening streams, of their handshakes, and of the requests over them."""

    async def open(self, address: str, port: int) -> ByteStream:
        """A connection that the host opens; after a break of the connection to the host it is tried again."""
        for attempt in range(_TRIES):
            await self._online(attempt > 0)
            self.round_trips += 1
            try:
                stream = _Counted(self, await self._link.open_stream(address, port))
            except LinkLost:
                continue
            except StreamRefused as refusal:
                raise self._refused(address, port, refusal) from None
            self._open.add(stream)
            return stream
        raise StreamError(
            f"the connection broke {_TRIES} times while a stream to {address}:{port} was opened",
            host=self._link.host,
            hint="check the host and the network",
        )

    @asynccontextmanager
    async def exchange(self, what: str, *, changes: bool = False) -> AsyncIterator[None]:
        """Compares the lease with the fence before a change, if that was not done a moment ago.

        Counts as a round trip; reads that are sent at the same moment count as one, like those of commands.
        """
        del what
        if changes or not self._reading:
            self.round_trips += 1
        if not changes and not self._reading:
            self._reading = True
            asyncio.get_running_loop().call_soon(self._read)
        if changes and time.monotonic() - self._fence_seen > _FENCE_FRESH:
            await self._fenced()
            self._fence_seen = time.monotonic()
        yield

    def _read(self) -> None:
        self._reading = False

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        """The attachment of this kind."""
        found = self._attached.get(kind)
        if found is None:
            found = self._attached[kind] = make()
        return cast("A", found)

    def compare_again(self) -> None:
        """The fence was set: what was compared before does not count."""
        self._fence_seen = 0.0

    def forget(self, stream: _Counted) -> None:
        """The stream was closed."""
        self._open.discard(stream)

    async def aclose(self) -> None:
        """Closes attachments, then every stream that is still open."""
        attached, self._attached = list(self._attached.values()), {}
        for attachment in attached:
            await attachment.aclose()
        for stream in tuple(self._open):
            await stream.aclose()

    def _refused(self, address: str, port: int, refusal: StreamRefused) -> HostError:
        if refusal.disabled:
            self.forwards = False
            return ForwardingDisabled(
                f"sshd refuses to forward to {address}:{port}",
                host=self._link.host,
                hint="set `AllowTcpForwarding local` in sshd_config, or let kubexm go on without forwarding",
            )
        return StreamError(
            f"no connection to {address}:{port} from this host: {refusal}",
            host=self._link.host,
            hint=f"check that something listens there: `ss -ltn` on {self._link.host}",
        )


class NoStreams:
    """The streams of a host that forwards nothing."""

    forwards = False

    def __init__(self, host: str) -> None:
        self._host = host

    async def open(self, address: str, port: int) -> ByteStream:
        """Always refused."""
        raise ForwardingDisabled(f"{self._host} does not forward to {address}:{port}", host=self._host)

    @asynccontextmanager
    async def exchange(self, what: str, *, changes: bool = False) -> AsyncIterator[None]:
        """Nothing can be asked over a stream, so nothing is compared."""
        del what, changes
        yield

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        """A new one each time: there is no connection it could last as long as."""
        del kind
        return make()
