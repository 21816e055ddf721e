"""This machine as a host, with the same contract as any other: the same shells and receipts, over pipes, not SSH."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from io import FileIO
from pathlib import PurePosixPath
from typing import Literal

from kubexm.connector.base import Stream
from kubexm.connector.core import HostConnector
from kubexm.connector.link import ChannelListener, LinkLost, StreamRefused
from kubexm.connector.transfer import Digests
from kubexm.redact import Secret

__all__ = ["LocalConnector"]

_EXIT_WAIT = 2.0


class _Output(asyncio.Protocol):
    """One stream of a process, on its way to the listener."""

    def __init__(self, process: _Process, stream: Stream) -> None:
        self._process = process
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        self._process.listener.received(self._stream, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.closed(self._stream)


class _Input(asyncio.Protocol):
    """The way into a process, with its brakes."""

    def __init__(self, process: _Process) -> None:
        self._process = process

    def pause_writing(self) -> None:
        self._process.listener.pause_writing()

    def resume_writing(self) -> None:
        self._process.listener.resume_writing()


class _Process:
    """A process as a channel. Not asyncio's own: that one kills what it lets go of, and changes must go on."""

    def __init__(self, listener: ChannelListener) -> None:
        self.listener = listener
        self.exited = asyncio.Event()
        self._pid = 0
        self._watch = -1
        self._exit_code: int | None = None
        self._open: set[Stream] = {"stdout", "stderr"}
        self._stdin: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self._told = False

    async def start(self, command: str) -> None:
        """Runs the command in a session of its own."""
        loop = asyncio.get_running_loop()
        (stdin, our_in), (our_out, stdout), (our_err, stderr) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._pid = os.posix_spawn(  # noqa: ASYNC221 - returns at once
                "/bin/sh",
                ["/bin/sh", "-c", command],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate((stdin, stdout, stderr))],
                setsid=True,
            )
        except OSError:
            for fd in (our_in, our_out, our_err):
                os.close(fd)
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        self._watch = os.pidfd_open(self._pid)
        loop.add_reader(self._watch, self._reap)
        self._stdin, _ = await loop.connect_write_pipe(lambda: _Input(self), _file(our_in, "wb"))
        streams: tuple[tuple[int, Stream], ...] = ((our_out, "stdout"), (our_err, "stderr"))
        for fd, stream in streams:
            transport, _ = await loop.connect_read_pipe(partial(_Output, self, stream), _file(fd, "rb"))
            self._outputs.append(transport)

    def write(self, data: bytes | memoryview) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    def write_eof(self) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write_eof()

    def close(self) -> None:
        """Closes the pipes only: what runs goes on, as it would on a far host."""
        self._told = True
        if self._stdin is not None:
            self._stdin.close()
        for transport in self._outputs:
            transport.close()

    def closed(self, stream: Stream) -> None:
        """One of its outputs is at its end."""
        self._open.discard(stream)
        self._tell()

    def unwatch(self) -> None:
        """Stops waiting for its end."""
        if self._watch >= 0:
            asyncio.get_running_loop().remove_reader(self._watch)
            os.close(self._watch)
            self._watch = -1

    def _reap(self) -> None:
        self.unwatch()
        try:
            _, status = os.waitpid(self._pid, 0)
            self._exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._exit_code = -1
        self.exited.set()
        self._tell()

    def _tell(self) -> None:
        if self._told or self._open or not self.exited.is_set():
            return
        self._told = True
        if self._stdin is not None:
            self._stdin.close()
        self.listener.ended(self._exit_code)


def _file(descriptor: int, mode: Literal["rb", "wb"]) -> FileIO:
    return os.fdopen(descriptor, mode, buffering=0)


class _Socket:
    """A TCP connection of this machine, in the terms of `ByteStream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, most: int = 65536) -> bytes:
        return await self._reader.read(most)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()


class _LocalLink:
    """Channels that are processes of this machine."""

    most_channels = 64
    broken = False

    def __init__(self, host: str, sudo_password: Secret | None, store: str, *, may_sudo: bool) -> None:
        self.host = host
        self.root = os.geteuid() == 0
        self.may_sudo = may_sudo
        self.sudo_password = sudo_password.reveal() if sudo_password else None
        self.store = store
        self._processes: set[_Process] = set()

    async def connect(self) -> None:
        """There is nothing to connect."""

    async def open(self, command: str, listener: ChannelListener, first: bytes = b"") -> _Process:
        process = _Process(listener)
        try:
            await process.start(command)
        except OSError as error:
            raise LinkLost from error
        self._processes = {known for known in self._processes if not known.exited.is_set()} | {process}
        if first:
            process.write(first)
        return process

    async def open_stream(self, address: str, port: int) -> _Socket:
        try:
            return _Socket(*await asyncio.open_connection(address, port))
        except OSError as error:
            raise StreamRefused(error.strerror or str(error)) from None

    def sibling(self) -> _LocalLink:
        password = Secret(self.sudo_password) if self.sudo_password else None
        return _LocalLink(self.host, password, self.store, may_sudo=self.may_sudo)

    async def close(self) -> None:
        """Waits a moment for idle shells to end; what still runs goes on by itself."""
        for process in self._processes:
            process.close()
        waits = [asyncio.ensure_future(process.exited.wait()) for process in self._processes]
        if waits:
            _, late = await asyncio.wait(waits, timeout=_EXIT_WAIT)
            for wait in late:
                wait.cancel()
        for process in self._processes:
            process.unwatch()
        self._processes.clear()


class LocalConnector(HostConnector):
    """The machine kubexm runs on. Needs no connection.

    As a host of the cluster it uses sudo unless kubexm runs as root. With `sudo=False` (the control node) it never
    does: every command runs as the user who started kubexm, and uploaded files belong to that user.
    """

    def __init__(
        self,
        host: str = "localhost",
        *,
        sudo: bool = True,
        sudo_password: Secret | None = None,
        store: PurePosixPath | None = None,
        digests: Digests | None = None,
    ) -> None:
        link = _LocalLink(host, sudo_password, str(store) if store else "", may_sudo=sudo)
        super().__init__(link, digests=digests)
