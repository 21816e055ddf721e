"""What the tests of assets share: a web server, and retries that do not wait."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from kubexm.assets.transfer import Retry, open_client
from tests.unit.assets.web import Web, serving


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    """An HTTP server of one's own."""
    async with serving() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client that no proxy of this machine can get hold of."""
    async with open_client(trust_env=False) as opened:
        yield opened


@pytest.fixture
def waits() -> list[float]:
    """How long the retries under test would have waited, in order."""
    return []


@pytest.fixture
def retry(waits: list[float]) -> Retry:
    """The usual retries, without the waiting."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Retry(sleep=sleep, random=lambda: 0.5)
