"""One command on many hosts: on those that were chosen, each told as it ends, a failure keeping nobody from theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.errors import UsageError
from kubexm.service import FleetService
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root


async def test_each_host_is_told_as_it_ends(cluster: Path) -> None:
    told: list[object] = []
    ran = await FleetService().command(cluster, "echo out; test $((1)) = 1", limit=["n*"], on_result=told.append)
    assert {name: result.text for name, result in ran.results.items()} == {"n1": "out", "n2": "out"}
    assert ran.ok
    assert len(told) == 2


async def test_a_failure_is_in_the_report(cluster: Path) -> None:
    failed = await FleetService().command(cluster, "exit 3", limit=["n1"])
    assert not failed.ok
    assert failed.results["n1"].exit_code == 3
    assert set((await FleetService().command(cluster, "true", roles=["worker"])).results) == {"n2"}


async def test_a_host_that_is_not_in_the_file_is_refused(cluster: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        await FleetService().command(cluster, "true", limit=["nowhere"])
