"""A follower: server-sent events over a bare socket, so that hundreds of them cost little and one can stall."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


@dataclass
class Told:
    """One event."""

    kind: str
    id: int | None
    data: dict[str, Any]
    at: float = field(default_factory=time.time)


class Follower:
    """One connection. `events` yields until the server ends it."""

    def __init__(self, url: str, path: str, token: str, *, last: int | str | None = None, small: bool = False) -> None:
        parts = urlsplit(url)
        self._place = parts.hostname or "", parts.port or 80
        self._small = small
        lines = [f"GET /api/v1{path} HTTP/1.1", f"Host: {parts.netloc}", f"Authorization: Bearer {token}"]
        if last is not None:
            lines.append(f"Last-Event-ID: {last}")
        self._request = "\r\n".join([*lines, "Accept: text/event-stream", "", ""]).encode()
        self.status = 0
        self.seen: list[int] = []
        self.writer: asyncio.StreamWriter | None = None
        self.reader: asyncio.StreamReader | None = None

    async def open(self) -> None:
        """Connects, asks, and reads the head of the answer."""
        near = socket.socket()
        near.setblocking(False)
        if self._small:  # set before connecting: the window never gets larger
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.get_running_loop().sock_connect(near, self._place)
        self.reader, self.writer = await asyncio.open_connection(sock=near, limit=2**16)
        self.writer.write(self._request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.status = int(head.split()[1])

    async def events(self) -> AsyncIterator[Told]:
        """What is told, as it is told."""
        if self.reader is None:
            await self.open()
        assert self.reader is not None
        text = b""
        while self.status == 200:
            size = int(await self.reader.readline() or b"0", 16)
            if not size:
                return
            text += (await self.reader.readexactly(size + 2))[:-2]
            *whole, text = text.split(b"\n\n")
            for block in whole:
                told = _parsed(block)
                if told is not None:
                    if told.id is not None:
                        self.seen.append(told.id)
                    yield told

    async def count(self, most: int = 2**62) -> bool:
        """Notes the ids that come, until the end (True) or until there are so many; cheaper than reading events."""
        if self.reader is None:
            await self.open()
        assert self.reader is not None
        text = b""
        while len(self.seen) < most:
            size = int(await self.reader.readline() or b"0", 16)
            if not size:
                return True
            text += (await self.reader.readexactly(size + 2))[:-2]
            whole, _, text = text.rpartition(b"\n\n")
            self.seen += map(int, _ID.findall(whole + b"\n"))
        return False

    async def all(self) -> list[Told]:
        """Everything until the end."""
        found = [told async for told in self.events()]
        self.close()
        return found

    def close(self) -> None:
        """Goes away."""
        if self.writer is not None:
            self.writer.close()


def _parsed(block: bytes) -> Told | None:
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and not line.startswith(b":"))
    if b"data" not in fields:
        return None
    number = int(fields[b"id"]) if fields.get(b"id", b"").isdigit() else None
    return Told(fields[b"event"].decode(), number, json.loads(fields[b"data"]))
