"""A TCP proxy that misbehaves on purpose: late, cut off, or silent. For tests and benchmarks of what talks over it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

__all__ = ["TcpProxy"]


class _Pipe:
    """One direction of a connection."""

    def __init__(
        self, proxy: TcpProxy, turns: _Turns, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, away: bool
    ) -> None:
        self._proxy = proxy
        self._turns = turns
        self._reader = reader
        self._writer = writer
        self._away = away
        self._last = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await self._reader.read(65536):
                await self._proxy.flowing.wait()
                if not self._proxy.count(len(data)):
                    return
                turn = self._turns.back + 1 if self._away else self._turns.away
                if self._proxy.delay:
                    self._last = loop.time() + self._proxy.delay
                    loop.call_at(self._last, self._write, data, turn)
                else:
                    self._write(data, turn)
                    await self._writer.drain()
            if self._proxy.delay:
                await asyncio.sleep(max(0.0, self._last - loop.time()) + 0.001)
        except OSError:
            pass
        finally:
            self._writer.close()

    def _write(self, data: bytes, turn: int) -> None:
        if self._away:
            self._turns.away = max(self._turns.away, turn)
        else:
            self._turns.back = max(self._turns.back, turn)
        if not self._writer.is_closing():
            self._writer.write(data)


@dataclass(slots=True)
class _Turns:
    """What each end of a connection has received so far, as the number of round trips that led to it."""

    away: int = 0
    back: int = 0


class TcpProxy:
    """Listens on a loopback address and passes everything on to (host, port), as well as it is told to."""

    def __init__(self, host: str, port: int, *, delay: float = 0.0, address: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self.address = address
        self._turns: list[_Turns] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._left: int | None = None
        self._stall_at: int | None = None
        self.delay = delay
        """Seconds each way."""
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.port = 0
        self.accepted = 0
        """How many connections there were."""
        self.passed = 0
        """How many bytes went through, both ways together."""
        self.refusing = False
        """Hang up on new connections at once."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.address, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def round_trips(self) -> int:
        """How many times in a row somebody here waited for an answer before going on; of the longest connection."""
        return max((turns.back for turns in self._turns), default=0)

    def cut(self) -> None:
        """Breaks all connections now."""
        for writer in list(self._writers):
            writer.transport.abort()

    def cut_after(self, size: int) -> None:
        """Breaks all connections once this many more bytes have passed; new ones are whole again."""
        self._left = size

    def stall_after(self, size: int) -> None:
        """Stalls once this many more bytes have passed."""
        self._stall_at = self.passed + size

    def stall(self) -> None:
        """Passes nothing on any more, and says nothing: a pulled cable."""
        self.flowing.clear()

    def heal(self) -> None:
        """Passes everything on again."""
        self.flowing.set()

    def count(self, size: int) -> bool:
        """Notes what passes; False if that was too much."""
        self.passed += size
        if self._stall_at is not None and self.passed >= self._stall_at:
            self._stall_at = None
            self.stall()
        if self._left is None:
            return True
        self._left -= size
        if self._left > 0:
            return True
        self._left = None
        self.cut()
        return False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.close()
            return
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        turns = _Turns()
        self._turns.append(turns)
        pipes = (
            _Pipe(self, turns, reader, far_writer, away=True),
            _Pipe(self, turns, far_reader, writer, away=False),
        )
        tasks = [asyncio.get_running_loop().create_task(pipe.run()) for pipe in pipes]
        self._tasks |= set(tasks)
        await asyncio.wait(tasks)
        self._tasks -= set(tasks)
        self._writers -= {writer, far_writer}
