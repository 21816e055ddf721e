"""The connector as one (node, host) sees it: its changes carry receipts of its name, its output goes to its log."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from kubexm.connector import (
    Attachment,
    ByteStream,
    Command,
    CommandResult,
    Connector,
    OutputSink,
    Receipt,
    Stream,
    Streams,
    Upload,
)

__all__ = ["Transcript", "UnitConnector"]

_KEPT = 64 * 1024
A = TypeVar("A", bound=Attachment)


class Transcript:
    """What the changing commands of a unit printed: the whole goes to `sink`, head and tail are kept."""

    __slots__ = ("_head", "_sink", "_size", "_tail")

    def __init__(self, sink: OutputSink | None = None) -> None:
        self._sink = sink
        self._head: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._tail: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._size: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def write(self, stream: Stream, data: bytes) -> None:
        """Takes one piece of output."""
        if self._sink is not None:
            self._sink(stream, data)
        self._size[stream] += len(data)
        head, tail = self._head[stream], self._tail[stream]
        room = _KEPT // 2 - len(head)
        if room > 0:
            head += data[:room]
            data = data[room:]
        tail += data
        if len(tail) > _KEPT:
            del tail[: -_KEPT // 2]

    def text(self, stream: Stream) -> str:
        """What is kept of a stream, with a line that says how much is missing."""
        head, tail = bytes(self._head[stream]), bytes(self._tail[stream][-_KEPT // 2 :])
        missing = self._size[stream] - len(head) - len(tail)
        gap = f"\n… {missing} bytes left out …\n".encode() if missing else b""
        return (head + gap + tail).decode(errors="replace")


class UnitConnector:
    """A connector for the time of one attempt at one unit. Between `begin` and `end` it may change; else it reads."""

    __slots__ = ("_changing", "_count", "_flying", "_inner", "_receipts", "_since", "_transcript", "_urgency", "busy")

    def __init__(self, inner: Connector, transcript: Callable[[], Transcript], urgency: float = 0.0) -> None:
        """`urgency`: of what it sends, where that has to wait for its turn."""
        self.busy = 0.0
        """Seconds in which a command or a transfer was under way."""
        self._flying = 0
        self._since = 0.0
        self._inner = inner
        self._urgency = urgency
        self._transcript = transcript
        self._receipts = ""
        self._count = 0
        self._changing = False

    def begin(self, receipts: str) -> None:
        """Changes are allowed from here on, with receipts named so and numbered."""
        self._receipts = receipts
        self._count = 0
        self._changing = True

    def end(self) -> None:
        """Only reads from here on."""
        self._changing = False

    @property
    def host(self) -> str:
        """The host's name."""
        return self._inner.host

    @property
    def streams(self) -> Streams:
        """Connections that the host opens; changes over them are refused while this unit only reads."""
        return _UnitStreams(self, self._inner.streams)

    async def connect(self) -> None:
        """Connects, if that is not done yet."""
        await self._inner.connect()

    async def close(self) -> None:
        """Does nothing: the connection is the pool's."""

    async def execute(self, command: Command) -> CommandResult:
        """Runs it; a change gets this unit's next receipt and its output is recorded."""
        if not command.changes:
            with self._under_way():
                return await self._inner.execute(command)
        self._refuse_if_reading(command.display or command.script)
        self._count += 1
        transcript = self._transcript()
        sink = command.sink

        def record(stream: Stream, data: bytes) -> None:
            if stream != "stdout" or not command.told:
                transcript.write(stream, data)
            if sink is not None:
                sink(stream, data)

        receipt = command.receipt or f"{self._receipts}.{self._count}"
        with self._under_way():
            result = await self._inner.execute(replace(command, receipt=receipt, sink=record))
        if command.told:
            transcript.write("stdout", f"{command.told}\n".encode() if result.ok else result.stdout)
        return result

    async def upload(self, upload: Upload) -> bool:
        """Puts the file there."""
        self._refuse_if_reading(f"upload of {upload.path}")
        self._count += 1
        receipt = upload.receipt or f"{self._receipts}.{self._count}"
        with self._under_way():
            return await self._inner.upload(replace(upload, receipt=receipt, urgency=upload.urgency or self._urgency))

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        """Fetches a file."""
        with self._under_way():
            await self._inner.download(path, target, sudo=sudo)

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        """The receipts whose names start so."""
        return await self._inner.settle(prefix, wait=wait)

    async def forget(self, prefix: str) -> None:
        """Removes receipts of commands that have ended."""
        await self._inner.forget(prefix)

    async def boot_id(self) -> str:
        """Of the host's current boot."""
        return await self._inner.boot_id()

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        """Sets the fence of the connection below."""
        self._inner.fence(path, token, held)

    @asynccontextmanager
    async def exchange(self, streams: Streams, what: str, *, changes: bool) -> AsyncIterator[None]:
        """A request over a stream: counted as busy; a change is recorded once it ended well."""
        if changes:
            self._refuse_if_reading(what)
        with self._under_way():
            async with streams.exchange(what, changes=changes):
                yield
        if changes:
            self._transcript().write("stdout", f"{what}\n".encode())

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Counts the time within as busy, once where several things are under way."""
        if not self._flying:
            self._since = time.monotonic()
        self._flying += 1
        try:
            yield
        finally:
            self._flying -= 1
            if not self._flying:
                self.busy += time.monotonic() - self._since

    def _refuse_if_reading(self, what: str) -> None:
        if not self._changing:
            raise AssertionError(f"a precheck must not change anything: {what}")


class _UnitStreams:
    """The streams of a host, in the name of one unit."""

    __slots__ = ("_inner", "_unit")

    def __init__(self, unit: UnitConnector, inner: Streams) -> None:
        self._unit = unit
        self._inner = inner

    @property
    def forwards(self) -> bool:
        return self._inner.forwards

    async def open(self, address: str, port: int) -> ByteStream:
        return await self._inner.open(address, port)

    def exchange(self, what: str, *, changes: bool = False) -> AbstractAsyncContextManager[None]:
        return self._unit.exchange(self._inner, what, changes=changes)

    def attached(self, kind: type[A], make: Callable[[], A]) -> A:
        return self._inner.attached(kind, make)
