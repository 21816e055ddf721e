"""Server-sent events: a response that goes on for as long as there is something to tell and somebody who listens.

Nothing is buffered for a follower: each takes from what all share, at its own pace, and is dropped if it does not take
anything for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kubexm.rest.access import Principal
from kubexm.rest.state import Server

__all__ = ["EventStream"]


class EventStream(Response):
    """Streams what a source yields."""

    media_type = "text/event-stream"

    def __init__(self, server: Server, who: Principal, source: AsyncIterator[bytes]) -> None:
        """It counts as open from here on, so that what is too much can still be refused."""
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._server = server
        self._source = source
        self._open = contextlib.ExitStack()
        self._open.enter_context(server.streams.one(who.token.id))
        self._shut = self._open.enter_context(server.guard.watch(who.token.id, who.session))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the source ends, the token does, the other side goes away or does not read for too long."""
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._server.metrics.streams.inc()
        gone, shut = asyncio.create_task(_gone(receive)), asyncio.create_task(self._shut.wait())
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
            work = asyncio.create_task(self._send(scope, send))
            await asyncio.wait((work, gone, shut), return_when=asyncio.FIRST_COMPLETED)
            cut = not work.done()
            if cut:
                work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
            if cut and not gone.done():
                await self._finish(scope, send)
        finally:
            gone.cancel()
            shut.cancel()
            self._server.metrics.streams.dec()
            self._open.close()

    async def _send(self, scope: Scope, send: Send) -> None:
        try:
            async with contextlib.aclosing(self._source) as source:  # type: ignore[type-var]  # it is a generator
                async for piece in source:
                    async with asyncio.timeout(self._server.settings.send_within):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._server.metrics.dropped.inc()
            await _abort(scope)

    async def _finish(self, scope: Scope, send: Send) -> None:
        """Ends the response of somebody who may not listen any longer."""
        try:
            async with asyncio.timeout(1.0):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            await _abort(scope)


async def _abort(scope: Scope) -> None:
    transport = scope.get("state", {}).get("transport")
    if transport is not None:
        transport.abort()  # what it has not read by now it never gets
        await asyncio.sleep(0)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
