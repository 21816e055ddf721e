"""A host over SSH: connections that come back, and channels over them. Must not know what runs in the channels."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import asyncssh

from kubexm.connector.core import HostConnector
from kubexm.connector.link import ChannelListener, LinkLost, SessionRefused, StreamRefused
from kubexm.connector.settings import ConnectionSettings
from kubexm.connector.transfer import Digests
from kubexm.connector.turns import Turns
from kubexm.errors import ConnectError

__all__ = ["Dial", "SSHConnector", "SSHLink", "hang_up"]

Dial = Callable[[str, ConnectionSettings, Callable[[], None]], Awaitable[asyncssh.SSHClientConnection]]
"""Logs in to a host, through its bastions; the callback hears when the connection is gone."""

_CHANNELS = 8
_REFUSAL_HOLDS = 30.0
_WRITE_AHEAD = 1024 * 1024
_FAREWELL = 2.0
_NO_FORWARDING = (asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_UNKNOWN_CHANNEL_TYPE)


class _Session(asyncssh.SSHClientSession[bytes]):
    """A channel of asyncssh, in the terms of `Channel`."""

    def __init__(self, listener: ChannelListener, first: bytes, gone: Callable[[], None]) -> None:
        self._listener = listener
        self._first = first
        self._gone = gone
        self._exit_code: int | None = None
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan
        chan.set_write_buffer_limits(high=_WRITE_AHEAD)
        if self._first:
            # By the time this runs the request to start the command has been sent: no need to wait for its answer.
            asyncio.get_running_loop().call_soon(self.write, self._first)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._listener.received("stdout" if datatype is None else "stderr", data)

    def eof_received(self) -> bool:
        return True

    def exit_status_received(self, status: int) -> None:
        self._exit_code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._exit_code = -1

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        self._listener.ended(self._exit_code)

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()

    def write(self, data: bytes | memoryview) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(bytes(data))

    def write_eof(self) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write_eof()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()


class _Forwarded:
    """A channel of asyncssh that leads to a TCP port, in the terms of `ByteStream`."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, most: int = 65536) -> bytes:
        try:
            return await self._reader.read(most)
        except (asyncssh.Error, OSError) as error:
            raise ConnectionResetError(str(error)) from error

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (asyncssh.Error, OSError) as error:
            raise ConnectionResetError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()


class SSHLink:
    """The connection to one host."""

    store = ""
    may_sudo = True

    def __init__(self, host: str, settings: ConnectionSettings, dial: Dial) -> None:
        self.host = host
        self.root = settings.user == "root"
        password = settings.sudo_password or settings.password
        self.sudo_password = password.reveal() if password else None
        self._settings = settings
        self._dial = dial
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._open = 0
        self._refused_at = (0, 0.0)
        self.broken = False

    @property
    def most_channels(self) -> int:
        """What sshd allows by default, with some to spare; less for a while after it has refused one."""
        most, until = self._refused_at
        return most if time.monotonic() < until else _CHANNELS

    async def connect(self) -> None:
        """Connects, if that is not done yet; whoever asks meanwhile waits for the same attempt."""
        if self._connection is not None:
            return
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        await asyncio.shield(self._connecting)

    async def _connect(self) -> None:
        gone = False

        def lost() -> None:
            nonlocal gone
            gone = True
            self.broken = self._connection is not None
            self._connection = None
            self._open = 0

        connection = await self._dial(self.host, self._settings, lost)
        if gone:  # while the host's new key was being recorded
            raise ConnectError("the connection broke right after the login", host=self.host)
        self._connection = connection
        self.broken = False

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited has seen it

    async def open(self, command: str, listener: ChannelListener, first: bytes = b"") -> _Session:
        """Starts a command; raises LinkLost or SessionRefused."""
        connection = self._connection
        if connection is None:
            raise LinkLost
        session = _Session(listener, first, self._one_less)
        self._open += 1
        try:
            await connection.create_session(lambda: session, command, encoding=None)
        except asyncssh.ChannelOpenError as error:
            self._one_less()
            if connection.is_closed() or "connection closed" in str(error).lower():
                raise LinkLost from None
            self._refused_at = (max(1, self._open), time.monotonic() + _REFUSAL_HOLDS)
            raise SessionRefused from None
        except (asyncssh.Error, OSError):
            self._one_less()
            raise LinkLost from None
        except asyncio.CancelledError:
            session.close()
            raise
        return session

    async def open_stream(self, address: str, port: int) -> _Forwarded:
        """A direct-tcpip channel. These do not count against sshd's MaxSessions."""
        connection = self._connection
        if connection is None:
            raise LinkLost
        opening = asyncio.ensure_future(connection.open_connection(address, port, encoding=None))
        try:
            return _Forwarded(*await asyncio.shield(opening))
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed() or "connection closed" in str(error).lower():
                raise LinkLost from None
            raise StreamRefused(error.reason, disabled=error.code in _NO_FORWARDING) from None
        except (asyncssh.Error, OSError):
            raise LinkLost from None
        except asyncio.CancelledError:
            opening.add_done_callback(_let_go)
            raise

    def _one_less(self) -> None:
        self._open = max(0, self._open - 1)

    def sibling(self) -> SSHLink:
        """A further connection to the same host."""
        return SSHLink(self.host, self._settings, self._dial)

    async def close(self) -> None:
        """Ends the connection."""
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        self.broken = False
        if connection is not None:
            await hang_up(connection)


def _let_go(opening: asyncio.Future[tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]]) -> None:
    """Closes a channel that was opened for somebody who no longer wants it."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()


async def hang_up(connection: asyncssh.SSHClientConnection) -> None:
    """Ends a connection politely, or at once if nobody is there to hear it."""
    connection.close()
    try:
        async with asyncio.timeout(_FAREWELL):
            await connection.wait_closed()
    except TimeoutError:
        connection.abort()


class SSHConnector(HostConnector):
    """A host over SSH, with the contract of `Connector`. Made by a ConnectionPool."""

    def __init__(
        self,
        host: str,
        settings: ConnectionSettings,
        dial: Dial,
        *,
        reconnect_for: float = 60.0,
        digests: Digests | None = None,
        sending: Turns | None = None,
    ) -> None:
        super().__init__(SSHLink(host, settings, dial), reconnect_for=reconnect_for, digests=digests, sending=sending)
        self.settings = settings
