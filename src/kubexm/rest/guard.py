"""Ends streams whose token was revoked or has expired, or whose session has ended. Must not know what they carry."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from kubexm.errors import NotFoundError, StoreError
from kubexm.store.tokens import Tokens

__all__ = ["Guard"]


class Guard:
    """Knows who has streams open, and looks now and then whether they still may."""

    def __init__(self, tokens: Tokens, every: float) -> None:
        self._tokens = tokens
        self._every = every
        self._open: dict[tuple[str, str], set[asyncio.Event]] = {}

    @contextlib.contextmanager
    def watch(self, token: str, session: str) -> Iterator[asyncio.Event]:
        """Within, the event is set once the token, or the session if there is one, opens nothing any more."""
        key, shut = (token, session), asyncio.Event()
        self._open.setdefault(key, set()).add(shut)
        try:
            yield shut
        finally:
            self._open[key].discard(shut)
            if not self._open[key]:
                del self._open[key]

    async def run(self) -> None:
        """Checks for as long as the server runs; tokens can also be revoked on the command line, beside it."""
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(StoreError):  # unknown for now; every request that needs a token is refused
                await self.check()

    async def check(self) -> None:
        """Ends the streams of all who may not listen any longer."""
        for key in list(self._open):
            if not await self._valid(*key):
                for shut in self._open.get(key, ()):
                    shut.set()

    async def _valid(self, token: str, session: str) -> bool:
        if session:
            return await self._tokens.session(session) is not None
        try:
            return (await self._tokens.get(token)).valid(time.time())
        except NotFoundError:
            return False
