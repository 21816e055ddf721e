"""What every HTTP exchange here shares: one client, redirects that never leave TLS, retries with jitter, errors."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import functools
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = [
    "Damaged",
    "NotThere",
    "Opener",
    "Progress",
    "Refused",
    "Retry",
    "Transient",
    "Unreachable",
    "check_status",
    "following",
    "open_client",
    "shown_url",
]

_T = TypeVar("_T")
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10

Progress = Callable[[str, int, int | None], None]
"""Called with what is being transferred, how much of it is done, and how much it is in all, if known."""


class NotThere(AssetError):
    """The server answered and has no such thing."""


class Refused(AssetError):
    """The server answered and does not let us."""


class Unreachable(AssetError):
    """The server did not answer, or did not finish, however often it was asked."""


class Damaged(AssetError):
    """What arrived is not what was announced."""


class Transient(Exception):
    """It did not work this time; it may the next."""

    def __init__(self, reason: str, *, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class Opener(Protocol):
    """Asks for a URL and gives the answer as a stream; raises Transient for what may work the next time."""

    def __call__(self, url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[httpx.Response]: ...


def open_client(*, ca_file: Path | None = None, trust_env: bool = True) -> httpx.AsyncClient:
    """The client for all transfers; proxies and netrc are taken from the environment as usual."""
    import httpx

    verify = _trusted()
    if ca_file is not None:
        verify = httpx.create_ssl_context()
        try:
            verify.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise AssetError(f"the CA file {ca_file} cannot be used: {error}") from error
    return httpx.AsyncClient(
        verify=verify,
        trust_env=trust_env,
        timeout=httpx.Timeout(30.0, connect=10.0, pool=None),
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16),
        headers={"User-Agent": "kubexm", "Accept-Encoding": "identity"},
    )


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The usual CAs; read once, since that takes longer than anything else here."""
    import httpx

    return httpx.create_ssl_context()


def shown_url(url: str) -> str:
    """The URL as it may be shown: with no password and no query, which may hold a token."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def following(client: httpx.AsyncClient) -> Opener:
    """Opens URLs and follows redirects, but never from https to http and never with a password to another host."""

    @contextlib.asynccontextmanager
    async def opener(url: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        import httpx

        current = httpx.URL(url)
        for _ in range(_MOST_REDIRECTS):
            async with transport_errors(), client.stream("GET", current, headers=dict(headers)) as response:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    yield response
                    return
                target = current.join(response.headers["location"])
            if current.scheme == "https" and target.scheme != "https":
                raise Refused(f"{shown_url(url)} leads from https to {shown_url(str(target))}; refused")
            if target.host != current.host:
                headers = {key: value for key, value in headers.items() if key.lower() != "authorization"}
            current = target
        raise Refused(f"{shown_url(url)} redirects more than {_MOST_REDIRECTS} times")

    return opener


@contextlib.asynccontextmanager
async def transport_errors() -> AsyncIterator[None]:
    """Turns what may go away by itself into Transient, and what will not into an AssetError."""
    import httpx

    try:
        yield
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise AssetError(f"not a usable address: {error}") from error
    except httpx.ConnectError as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(error):
            raise Refused(
                f"the server's certificate is not trusted: {error}", hint="Name its CA with --ca-file, if it is yours."
            ) from error
        raise Transient(f"no connection: {error}") from error
    except httpx.TransportError as error:
        raise Transient(str(error) or type(error).__name__) from error


def check_status(response: httpx.Response, url: str, *, good: frozenset[int]) -> None:
    """Passes a good answer; raises Transient, NotThere or Refused for the others."""
    code = response.status_code
    if code in good:
        return
    if code in _AGAIN:
        raise Transient(f"HTTP {code}", wait=_retry_after(response.headers.get("retry-after", "")))
    if code in {404, 410}:
        raise NotThere(f"{shown_url(url)} is not there (HTTP {code})")
    if code in {401, 403, 407}:
        raise Refused(f"{shown_url(url)} may not be read (HTTP {code})", hint="Check the credentials or the proxy.")
    raise Refused(f"{shown_url(url)} was answered with HTTP {code}")


def _retry_after(value: str) -> float | None:
    if value.isdigit():
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often to try again, and how long to wait in between: doubling, with full jitter."""

    attempts: int = 6
    base: float = 0.5
    cap: float = 30.0
    longest_wait: float = 60.0
    """The most a server may make us wait by its Retry-After."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def delay(self, failures: int, error: Transient) -> float:
        """How long to wait after so many failures in a row."""
        if error.wait is not None:
            return min(error.wait, self.longest_wait)
        return float(self.random() * min(self.cap, self.base * 2 ** (failures - 1)))

    async def __call__(
        self, work: Callable[[], Awaitable[_T]], what: str, *, progressed: Callable[[], bool] = lambda: False
    ) -> _T:
        """Does the work until it is done; attempts that got further than the one before do not count."""
        failures = 0
        while True:
            try:
                return await work()
            except Transient as error:
                failures = 1 if progressed() else failures + 1
                if failures >= self.attempts:
                    raise Unreachable(
                        f"{what}: {error.reason} ({failures} attempts)",
                        hint="Check the address and the network; what arrived so far is kept and used next time.",
                    ) from error
                await self.sleep(self.delay(failures, error))
