"""A small HTTP server on 127.0.0.1 that can be told to misbehave, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Page:
    """What is under one path, and how it is served."""

    data: bytes = b""
    etag: bool = True
    ranges: bool = True
    length: bool = True
    """Whether a Content-Length is sent; without it the body ends when the connection does."""
    claim: int | None = None
    """A Content-Length that is not true."""
    redirect: str = ""
    cut_after: list[int] = field(default_factory=list)
    """For each of the next answers: how many bytes of the body are sent before the connection is cut; -1 for all."""
    fail_with: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """For each of the next answers: a status and headers instead of the content."""
    pieces: int = 16 * 1024
    wait: asyncio.Event | None = None
    """The body is held back until this is set."""


@dataclass
class Asked:
    """One request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[Asked], Answer | None]


class Web:
    """The server: pages by path, and the requests it got."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Asked] = []
        self.handler: Handler | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.port = 0

    def put(self, path: str, data: bytes, **how: object) -> Page:
        """Serves these bytes under this path."""
        self.pages[path] = Page(data=data, **how)  # type: ignore[arg-type]
        return self.pages[path]

    def ranges(self, path: str) -> list[str]:
        """The Range headers of all requests for this path."""
        return [asked.headers.get("range", "") for asked in self.asked if asked.path == path]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side went away, or the test is over
        finally:
            writer.close()
            self.tasks.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:] if line)}
        body = b""
        if "chunked" in headers.get("transfer-encoding", ""):
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readuntil(b"\r\n")
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(method, path, headers, body)
        self.asked.append(asked)
        answer = self.handler(asked) if self.handler else None
        if answer is not None:
            status, more, content = answer
            self._head(writer, status, {"Content-Length": str(len(content)), **more})
            if method != "HEAD":
                writer.write(content)
            await writer.drain()
            return True
        return await self._page(asked, writer)

    async def _page(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        page = self.pages.get(asked.path.partition("?")[0])
        if page is None:
            self._head(writer, 404, {"Content-Length": "0"})
            return True
        if page.fail_with:
            status, headers = page.fail_with.pop(0)
            self._head(writer, status, {"Content-Length": "0", **headers})
            return True
        if page.redirect:
            self._head(writer, 302, {"Location": page.redirect, "Content-Length": "0"})
            return True
        status, more, data = self._slice(asked, page)
        if page.length:
            more["Content-Length"] = str(page.claim if page.claim is not None else len(data))
        self._head(writer, status, more)
        if page.wait is not None:
            await writer.drain()
            await page.wait.wait()
        limit = page.cut_after.pop(0) if page.cut_after else -1
        allowed = data if limit < 0 else data[:limit]
        for at in range(0, len(allowed), page.pieces):
            writer.write(allowed[at : at + page.pieces])
            await writer.drain()
        return page.length and limit < 0 and page.claim is None

    def _slice(self, asked: Asked, page: Page) -> tuple[int, dict[str, str], bytes]:
        headers: dict[str, str] = {}
        tag = f'"{hashlib.md5(page.data).hexdigest()}"'
        if page.etag:
            headers["ETag"] = tag
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
        if not match or not page.ranges or asked.headers.get("if-range", tag) != tag:
            return 200, headers, page.data
        start, end = int(match[1]), min(int(match[2] or len(page.data)), len(page.data) - 1)
        if start >= len(page.data):
            return 416, {"Content-Range": f"bytes */{len(page.data)}"}, b""
        headers["Content-Range"] = f"bytes {start}-{end}/{len(page.data)}"
        return 206, headers, page.data[start : end + 1]

    def _head(self, writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1"))


@asynccontextmanager
async def serving() -> AsyncIterator[Web]:
    """A running server."""
    web = Web()
    server = await asyncio.start_server(web._serve, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    web.url = f"http://127.0.0.1:{web.port}"
    try:
        yield web
    finally:
        server.close()
        for task in list(web.tasks):
            task.cancel()
        await asyncio.gather(*web.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets what was closed let go of its sockets
