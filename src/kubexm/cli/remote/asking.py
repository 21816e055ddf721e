"""Requests to a server: who asks, what is done if nobody answers, and errors in the words of the command line."""

from __future__ import annotations

import asyncio
import logging
import ssl
import uuid
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from kubexm import __version__
from kubexm.cli.remote.address import TRY_FOR, ServerAddress
from kubexm.cli.remote.errors import of_problem
from kubexm.errors import KubexmError

__all__ = ["Asking", "ServerGone"]

_LONGEST_DELAY = 5.0
_PATIENCE = httpx.Timeout(30.0, connect=10.0)
_SILENCE = 50.0  # a server says that it is there more often than that
_AGAIN = frozenset({429, 502, 503, 504})
_logger = logging.getLogger("kubexm")


class ServerGone(KubexmError):
    """The server cannot be reached, or the line to it broke."""


class Asking:
    """One server, asked with one token. Between `async with`."""

    def __init__(self, address: ServerAddress, *, try_for: float = TRY_FOR, pause: float = 0.3) -> None:
        """`try_for`: seconds for which a request that nobody answers is made again, first after `pause`."""
        self.address = address
        self._try_for = try_for
        self._pause = pause
        self._client = httpx.AsyncClient(
            base_url=f"{address.url}/api/v1/",
            headers={"Authorization": f"Bearer {address.token.reveal()}", "User-Agent": f"kubexm/{__version__}"},
            verify=address.trust if address.trust is not None else False,
            timeout=_PATIENCE,
            trust_env=address.trust is not None,  # nothing stands between this machine and itself
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        """What a GET answers, as data."""
        return (await self.send("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None) -> Any:
        """What a POST answers. Asked again after a broken line it is done once."""
        return (await self.send("POST", path, json={} if body is None else body)).json()

    async def put(self, path: str, body: Any) -> None:
        """Puts data, or bytes, there."""
        if isinstance(body, bytes):
            await self.send("PUT", path, content=body, headers={"Content-Type": "application/octet-stream"})
        else:
            await self.send("PUT", path, json=body)

    async def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The answer to a request, which is made again if nobody answered; errors are those of the command line."""
        headers = dict(request.pop("headers", {}))
        if method == "POST":
            headers["Idempotency-Key"] = str(uuid.uuid4())
        loop = asyncio.get_running_loop()
        began, delay, problem = loop.time(), self._pause, ""
        while True:
            told, pause = bool(problem), delay
            answer: httpx.Response | None = None
            try:
                answer = await self._client.request(method, path, headers=headers, **request)
            except httpx.TransportError as error:
                _refuse_untrusted(self.address.url, error)
                problem = str(error) or type(error).__name__
            else:
                if answer.status_code not in _AGAIN:
                    if told:
                        _logger.warning("%s answers again", self.address.url)
                    return _checked(answer)
                problem, pause = f"it answered with {answer.status_code}", max(delay, _wanted_pause(answer))
            left = began + self._try_for - loop.time()
            if left <= 0:
                break
            if not told:
                _logger.warning("%s: %s; trying again for up to %g s", self.address.url, problem, self._try_for)
            await asyncio.sleep(min(pause, left))
            delay = min(2 * delay, _LONGEST_DELAY)
        if answer is not None:
            return _checked(answer)
        raise ServerGone(
            f"{self.address.url} does not answer after {self._try_for:g} s: {problem}",
            hint="does `kubexm serve` run there?",
        )

    async def stream(self, path: str, after: int) -> AsyncGenerator[tuple[str, Any]]:
        """Server-sent events behind a number, as kind and data; ServerGone if the line breaks before the end."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        timeout = httpx.Timeout(_SILENCE, connect=10.0)
        try:
            async with self._client.stream("GET", path, headers=headers, timeout=timeout) as answer:
                if answer.status_code in _AGAIN:
                    raise ServerGone(f"the server answered with {answer.status_code}")
                if answer.status_code != 200:
                    await answer.aread()
                    _checked(answer)
                    return
                async for told in _events(answer):
                    yield told
        except httpx.TransportError as error:
            _refuse_untrusted(self.address.url, error)
            raise ServerGone(str(error) or type(error).__name__) from error


def _wanted_pause(answer: httpx.Response) -> float:
    """Seconds after which the server wants to be asked again."""
    wanted = answer.headers.get("Retry-After", "")
    return float(wanted) if wanted.isascii() and wanted.isdigit() else 0.0


def _refuse_untrusted(url: str, error: BaseException) -> None:
    """Raises if the server did answer, with a certificate that is not trusted: trying again changes nothing."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise KubexmError(
            f"{url}: the certificate of the server is not trusted: {cause.verify_message}",
            hint="pass the fingerprint that `kubexm serve --tls-self-signed` printed with --server-fingerprint, "
            "or the certificate of its CA with --server-ca; nothing was sent",
        ) from error


async def _events(answer: httpx.Response) -> AsyncGenerator[tuple[str, Any]]:
    kind = "message"
    lines: list[str] = []
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        if not line:
            if lines:
                yield kind, orjson.loads("\n".join(lines))
            kind, lines = "message", []
        elif name == "event":
            kind = value.removeprefix(" ")
        elif name == "data":
            lines.append(value.removeprefix(" "))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code < 400:
        return answer
    try:
        document = answer.json()
    except ValueError:
        document = {}
    raise of_problem(answer.status_code, document if isinstance(document, dict) else {})
