"""How much anybody may ask for: bytes in a request, requests in a time, streams at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubexm.rest.problems import Refusal, respond

__all__ = ["BodyLimit", "Rates", "Streams"]

_MOST_KEYS = 10_000


class Rates:
    """A bucket for each key: so many at once, and so many more each second."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def has(self, key: str) -> bool:
        """Takes one; False if there is none."""
        return self._take(key) >= 1.0

    def take(self, key: str) -> None:
        """Takes one; refuses with 429 if there is none."""
        left = self._take(key)
        if left < 1.0:
            wait = max(1, round((1.0 - left) / self._per_second + 0.5))
            raise Refusal(
                429,
                "too-many-requests",
                "these are too many requests",
                hint=f"try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )

    def _take(self, key: str) -> float:
        """How much there was; less than one: nothing was taken."""
        now = time.monotonic()
        left, then = self._buckets.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - then) * self._per_second)
        self._buckets[key] = (max(left - 1.0, 0.0) if left >= 1.0 else left), now
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return left


class Streams:
    """How many do something at once, in all and for each token: follow something, for example."""

    def __init__(self, most: int, most_each: int, what: str = "streams") -> None:
        self._most = most
        self._most_each = most_each
        self._what = what
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._of.total()

    @contextmanager
    def one(self, key: str) -> Iterator[None]:
        """Within, there is one more; refuses with 429 if that is too many."""
        if self.count >= self._most or self._of[key] >= self._most_each:
            raise Refusal(
                429,
                f"too-many-{self._what}",
                f"{self._of[key]} {self._what} are open with this token, {self.count} in all",
                hint="wait until some have ended, and try again",
                headers={"Retry-After": "5"},
            )
        self._of[key] += 1
        try:
            yield
        finally:
            self._of[key] -= 1


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """ASGI: refuses bodies that are too large or too slow, before or while they are read."""

    app: ASGIApp
    most: int
    most_upload: int
    """For whatever takes files."""
    quiet: float
    """Seconds between two pieces of a body."""
    within: float
    """Seconds for all of it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            await respond(_two_lengths())(scope, receive, send)
            return
        upload = scope["method"] in ("PUT", "POST") and (
            "/files/" in scope["path"] or scope["path"].endswith("/clusters")
        )
        most = self.most_upload if upload else self.most
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            await respond(_too_large(most))(scope, receive, send)
            return
        taken, begun, whole = 0, False, False
        deadline = asyncio.get_running_loop().time() + self.within

        async def counted() -> Message:
            nonlocal taken, whole
            if whole:  # what comes next is that the other side goes away, whenever that is
                return await receive()
            try:
                async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + self.quiet)):
                    message = await receive()
            except TimeoutError:
                raise _too_slow() from None
            whole = not message.get("more_body", False)
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > most:
                    raise _too_large(most)
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except Refusal as refusal:
            if begun or refusal.status not in (408, 413):
                raise
            await respond(refusal)(scope, receive, send)


def _two_lengths() -> Refusal:
    return Refusal(
        400,
        "bad-request",
        "this request has both Content-Length and Transfer-Encoding",
        hint="send one of them: what a proxy takes for two requests could otherwise be one",
        headers={"Connection": "close"},
    )


def _too_slow() -> Refusal:
    return Refusal(
        408,
        "too-slow",
        "the body of this request did not arrive in time",
        hint="send it again, over a faster connection",
        headers={"Connection": "close"},
    )


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too-large", "the body of this request is too large", hint=f"at most {most} bytes")
