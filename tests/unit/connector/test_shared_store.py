"""Several connectors to one machine, all new at once: the control node beside a local host, or two kubexm processes."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath

from kubexm.connector import Command, LocalConnector
from tests.unit.runtime.clusters import needs_root


@needs_root
async def test_connectors_that_start_at_the_same_moment_share_the_place_of_receipts(tmp_path: Path) -> None:
    for attempt in range(3):
        store = PurePosixPath(tmp_path / f"receipts{attempt}")
        connectors = [LocalConnector(f"n{number}", store=store) for number in range(6)]
        results = await asyncio.gather(*(one.execute(Command(script="echo hello")) for one in connectors))
        assert [result.text for result in results] == ["hello"] * 6
        await asyncio.gather(*(one.close() for one in connectors))
        assert not [path.name for path in Path(store).iterdir() if path.name.endswith(".id")]
