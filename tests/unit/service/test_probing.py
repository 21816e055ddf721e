"""When a run is measured, and that a measurement never fails it."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pytest

from kubexm.components.probes.records import Cost
from kubexm.components.probes.step import Watched
from kubexm.errors import KubexmError
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph
from kubexm.service import probing
from kubexm.service.probing import Probing
from kubexm.step import FilePresent
from kubexm.task import FragmentBuilder
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context


class Session:
    """Stands for a measurement, and notes what it is asked."""

    made: ClassVar[list[Session]] = []
    failing: ClassVar[BaseException | None] = None

    def __init__(self, *_: object, level: str, **__: object) -> None:
        self.level = level
        self.asked: list[str] = []
        Session.made.append(self)

    async def start(self) -> None:
        self.asked.append("start")
        if Session.failing is not None:
            raise Session.failing

    async def poll(self) -> Cost:
        return Cost(id="m", level=self.level, started=1, ended=2)

    async def phase(self, name: str, *, busy: float = 0.0) -> None:
        self.asked.append(f"phase {name} {busy:g}")

    async def stop(self) -> Cost:
        self.asked.append("stop")
        return Cost(id="m", level=self.level, started=1, ended=2)


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> None:
    Session.made, Session.failing = [], None

    async def site(*_: object) -> None:
        return None

    monkeypatch.setattr(probing, "ProbeSession", Session)
    monkeypatch.setattr(probing, "site_of", site)
    monkeypatch.setattr(probing, "control_planes_at_hand", lambda _: [])
    monkeypatch.setattr(probing, "is_running", lambda _: True)


def probe(tmp_path: Path, level: str, *, watched: bool = False, **more: Any) -> Probing:
    context = memory_context(tmp_path, {"n1": MemoryConnector("n1"), "n2": MemoryConnector("n2")})
    g = FragmentBuilder("x.y")
    g.add("change", FilePresent(path=PurePosixPath("/etc/x"), content="x"), on=context.hosts)
    if watched:
        g.add("wait", Watched(phase="busy", seconds=5, busy=True), on=context.hosts[:1])
    return Probing(context, ExecutionGraph.build("test", g.build()), level, **more)


def running(node: str, host: str = "n1") -> Event:
    return Event(1, 0.0, EventKind.UNIT_RUNNING, node, host)


async def test_the_light_part_begins_with_the_first_change(tmp_path: Path) -> None:
    found = probe(tmp_path, "api")
    async with found.beside():
        await asyncio.sleep(0)
        assert Session.made == []
        found.on_event(running("x.y.change"))
        found.on_event(running("x.y.change", "n2"))
        await asyncio.sleep(0.01)
        assert [each.asked[0] for each in Session.made] == ["start"]
    assert Session.made[0].asked[-1] == "stop"
    assert found.cost is not None
    assert found.cost.level == "api"


async def test_the_light_part_begins_at_once_where_measuring_is_all_there_is_to_do(tmp_path: Path) -> None:
    found = probe(tmp_path, "api", watched=True)
    async with found.beside():
        assert [each.asked for each in Session.made] == [["start"]]
    assert found.cost is not None


async def test_a_run_that_changes_nothing_is_not_measured(tmp_path: Path) -> None:
    found = probe(tmp_path, "api")
    async with found.beside():
        pass
    assert (Session.made, found.cost) == ([], None)


async def test_a_cluster_that_does_not_run_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "is_running", lambda _: False)
    found = probe(tmp_path, "api")
    async with found.beside():
        found.on_event(running("x.y.change"))
    assert (Session.made, found.cost) == ([], None)


async def test_everything_begins_before_the_run_and_follows_its_phases(tmp_path: Path) -> None:
    seen: list[Cost] = []
    found = probe(tmp_path, "full", watched=True, on_cost=seen.append)
    async with found.beside():
        assert Session.made[0].asked == ["start"]
        found.on_event(running("x.y.wait"))
        for _ in range(100):
            await asyncio.sleep(0.01)
            if "phase busy 5" in Session.made[0].asked and seen:
                break
    assert Session.made[0].asked == ["start", "phase busy 5", "stop"]
    assert seen


@pytest.mark.parametrize("error", [KubexmError("the API is away"), RuntimeError("the API is away")])
@pytest.mark.parametrize("level", ["api", "full"])
async def test_a_measurement_that_fails_is_said_and_fails_nothing(tmp_path: Path, level: str, error: Exception) -> None:
    Session.failing = error
    found = probe(tmp_path, level)
    async with found.beside():
        found.on_event(running("x.y.change"))
        await asyncio.sleep(0.01)
    assert found.cost is not None
    assert "the API is away" in found.cost.problems[0]
    assert Session.made[0].asked == ["start", "stop"]  # what it had brought by then is removed
