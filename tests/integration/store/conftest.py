"""A store on each kind of database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubexm.store.store import Store


@pytest.fixture
async def store(database_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(database_url, tmp_path / "key")
    yield opened
    await opened.close()
