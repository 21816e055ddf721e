"""Operations on real hosts: recorded before the first change, exclusive until they end, then closed."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.errors import ConflictError, FormatError
from kubexm.pipeline import PIPELINES, Edits, Kind, Option, Pipeline
from kubexm.plan import ExecutionGraph, RunSpec, RunStatus
from kubexm.runner import Intent
from kubexm.runtime import PipelineContext
from kubexm.service import ClusterService
from kubexm.step import CommandRun
from kubexm.task import FragmentBuilder
from kubexm.testing import SshServer
from tests.integration.conftest import MakeServer
from tests.integration.engine.test_kill import OWN_STATE, cluster_file, printed

RECORD = "/var/lib/kubexm/intent.json"


class Raise(Pipeline):
    """Changes something on every host; fails where /run/broken is. With `hold`, it waits for another phase."""

    name = "raise"
    operation = True
    options = (
        Option(name="to", kind=Kind.TEXT, default="2", help="Where to."),
        Option(name="hold", kind=Kind.FLAG, help="Wait for another phase."),
    )

    def __init__(self, *, to: str = "2", hold: bool = False) -> None:
        self._to = to
        self._hold = hold

    def intent(self, ctx: PipelineContext) -> Intent:
        """From the version there is to the one that is wanted; the next phase counts on."""
        generation = 1 if ctx.intent is None else ctx.intent.generation + 1
        return Intent(operation=self.name, start="1", goal=self._to, hold=self._hold, generation=generation)

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One command on each host, which sees its own record."""
        g = FragmentBuilder(f"{self.name}.work")
        script = "cp /var/lib/kubexm/intent.json /run/seen 2>/dev/null; [ ! -e /run/broken ] && touch /run/raised"
        g.add("raise", CommandRun(command=script, name="raise", creates=PurePosixPath("/run/raised")), on=ctx.hosts())
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names)


class Lower(Raise):
    """Another operation."""

    name = "lower"


class Apply(Raise):
    """Applies the file; no operation."""

    name = "follow"
    operation = False
    accepts = frozenset({Edits.LIVE})


class Look(Apply):
    """Neither."""

    name = "look"
    accepts = frozenset()


@pytest.fixture
def servers(make_sshd: MakeServer, monkeypatch: pytest.MonkeyPatch) -> list[SshServer]:
    for kind in (Raise, Lower, Apply, Look):
        monkeypatch.setitem(PIPELINES, kind.name, f"{__name__}:{kind.__name__}")
    return [make_sshd(hostname=f"h{i}", mounts=OWN_STATE) for i in range(3)]


@pytest.fixture
def file(servers: list[SshServer], tmp_path: Path) -> Path:
    """An etcd member, a control plane and a worker: two keepers."""
    path = cluster_file(tmp_path, servers, "root")
    path.write_text(path.read_text().replace('[h0], worker: ["h[1:2]"]', "[h1], worker: [h2]"))
    return path


def records(servers: list[SshServer]) -> list[dict[str, Any]]:
    """What hosts record."""
    found = ["".join(printed(server, f"cat {RECORD} 2>/dev/null || true")) for server in servers]
    return [json.loads(text) for text in found if text]


async def test_it_is_open_from_its_first_change_to_its_end(servers: list[SshServer], file: Path) -> None:
    service = ClusterService()
    printed(servers[2], "touch /run/broken")
    failed = await service.run(file, RunSpec("raise", {"to": "3"}))
    assert failed.status is RunStatus.FAILED
    first, second = records(servers)
    assert first == second, "both keepers, and not the worker"
    expected = {"operation": "raise", "from": "1", "to": "3", "direction": "forward", "hold": False, "generation": 1}
    assert first == {**expected, "run": failed.run, "open": True, "token": first["token"], "layout": 1}
    assert json.loads("".join(printed(servers[0], "cat /run/seen"))) == first, "it was there before the first change"

    for other in ("lower", "follow"):
        with pytest.raises(ConflictError, match=r"the operation raise \(1 → 3\) of killed is not finished") as caught:
            await service.run(file, RunSpec(other))
        assert f"kubexm runs resume {failed.run}" in caught.value.hint
        with pytest.raises(ConflictError, match="is not finished"):
            await service.plan(file, RunSpec(other))
    assert (await service.run(file, RunSpec("look"), None)).status is RunStatus.FAILED, "this one is not refused"

    printed(servers[2], "rm /run/broken")
    done = await service.resume(service.run_files(failed.run, file).path)
    assert done.status is RunStatus.SUCCEEDED
    closed = records(servers)
    assert [(each["open"], each["generation"], each["run"]) for each in closed] == [(False, 1, failed.run)] * 2
    assert closed[0]["token"] > first["token"]

    # A keeper that was away when it ended: its record is older.
    printed(servers[1], f'sed -i \'s/"open": false/"open": true/; s/"token": [0-9]*/"token": 1/\' {RECORD}')
    assert [each["open"] for each in records(servers)] == [False, True]
    assert (await service.run(file, RunSpec("lower"))).status is RunStatus.SUCCEEDED
    assert [(each["operation"], each["open"]) for each in records(servers)] == [("lower", False)] * 2


async def test_it_stays_open_while_it_holds_and_a_dry_run_opens_none(servers: list[SshServer], file: Path) -> None:
    service = ClusterService()
    await service.run(file, RunSpec("raise", dry_run=True))
    assert records(servers) == []
    held = await service.run(file, RunSpec("raise", {"hold": True}))
    assert held.status is RunStatus.SUCCEEDED
    assert [(each["open"], each["hold"], each["generation"]) for each in records(servers)] == [(True, True, 1)] * 2
    with pytest.raises(ConflictError, match="the operation raise"):
        await service.run(file, RunSpec("follow"))
    assert (await service.run(file, RunSpec("raise"))).status is RunStatus.SUCCEEDED
    assert [(each["open"], each["hold"], each["generation"]) for each in records(servers)] == [(False, False, 2)] * 2

    printed(servers[1], f'sed -i \'s/"layout": 1/"layout": 7/\' {RECORD}')
    for pipeline in ("raise", "follow", "look"):
        with pytest.raises(FormatError, match="h1: a newer kubexm has been here: its records have the layout 7"):
            await service.run(file, RunSpec(pipeline))
