"""What is shown while something runs: lines, JSON and the live picture, fed by the real engine."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest
from rich.console import Console

from kubexm.cli.display.events import EventLines
from kubexm.cli.display.live import LiveDisplay
from kubexm.cli.display.plain import PlainLines
from kubexm.cli.display.words import clock, count, duration
from kubexm.cli.display.writer import LineWriter
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph, Retry
from tests.unit.engine.world import Wait, World, bare_graph, execute, node


def scene() -> tuple[World, ExecutionGraph]:
    """One host fails, one is so already, one needs a second attempt, one is blocked."""
    world = World("a", "b")
    world.broken.add(("a", "one"))
    world.things["b"].add("one")
    world.failures["b", "two"] = 1
    plan = bare_graph(
        node("one", "ab"), node("two", "b", retry=Retry(times=1, delay=0.0)), node("three", "a", after=("m.t.one",))
    )
    return world, plan


async def plain(tmp_path: Path, verbose: int) -> list[str]:
    world, plan = scene()
    stream = io.StringIO()
    writer = LineWriter(stream)
    lines = PlainLines(writer, verbose=verbose)
    lines.planned(plan)
    await execute(world, plan, tmp_path, observers=(lines,))
    writer.close()
    return stream.getvalue().splitlines()


async def test_plain_lines_tell_what_changed_or_failed(tmp_path: Path) -> None:
    lines = await plain(tmp_path, 0)
    assert lines[0] == "test: run r1, 2 hosts, 4 units"
    words = [line[9:].split()[:3] for line in lines[1:] if not line[:9].isspace()]
    assert ["FAILED", "a", "m.t.one"] in words
    assert ["changed", "b", "m.t.two"] in words
    assert ["retry", "b", "m.t.two"] in words
    assert not any("blocked" in line or " ok " in line for line in lines)
    assert any("error: it is broken" in line for line in lines)


async def test_plain_lines_tell_everything_when_asked(tmp_path: Path) -> None:
    lines = await plain(tmp_path, 2)
    words = [line[9:].split()[:3] for line in lines[1:] if not line[:9].isspace()]
    assert ["ok", "b", "m.t.one"] in words
    assert ["blocked", "a", "m.t.three"] in words
    assert "         a | error: it is broken" in lines


async def test_dry_run_lines(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = LineWriter(stream)
    await execute(World("a"), bare_graph(node("one", "a")), tmp_path, dry_run=True, observers=(PlainLines(writer),))
    writer.close()
    assert "would change a  m.t.one" in stream.getvalue()
    assert "it is not there" in stream.getvalue()


async def test_what_was_waited_for_is_not_told_as_changed(tmp_path: Path) -> None:
    for dry_run, said in ((True, "would wait a  m.t.one"), (False, "ready    a  m.t.one")):
        stream = io.StringIO()
        writer = LineWriter(stream)
        plan, observers = bare_graph(node("one", "a", Wait(name="one"))), (PlainLines(writer),)
        await execute(World("a"), plan, tmp_path / str(dry_run), dry_run=dry_run, observers=observers)
        writer.close()
        assert said in stream.getvalue()
        assert "change" not in stream.getvalue()


async def test_json_lines(tmp_path: Path) -> None:
    world, plan = scene()
    stream = io.StringIO()
    writer = LineWriter(stream)
    lines = EventLines(writer)
    lines.planned(plan)
    await execute(world, plan, tmp_path, observers=(lines,))
    writer.close()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert events[0]["kind"] == "plan"
    assert (events[1]["kind"], events[-1]["kind"]) == ("run.started", "run.ended")
    assert [event["seq"] for event in events[1:]] == list(range(1, len(events))), "every event once, in order"
    assert "unit.output" not in {event["kind"] for event in events}
    failed = next(event for event in events if event.get("data", {}).get("state") == "failed")
    assert (failed["node"], failed["host"], failed["data"]["error"]["exit_code"]) == ("m.t.one", "a", 7)


async def live(tmp_path: Path, world: World, plan: ExecutionGraph, *, height: int = 30, verbose: int = 0) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=height, color_system=None)
    display = LiveDisplay(console, verbose=verbose)
    display.planned(plan)
    await execute(world, plan, tmp_path, observers=(display,))
    display.close()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_the_live_picture_shows_phases_hosts_and_failures(tmp_path: Path) -> None:
    world, plan = scene()
    shown = await live(tmp_path, world, plan)
    assert "✗ a m.t.one: `make one` exited with 7: error: it is broken" in shown
    assert "↻ b m.t.two" in shown
    assert "100 %" in shown
    assert "4/4" in shown
    assert shown.rstrip().endswith("\x1b[2K") or "\x1b[" in shown


async def test_a_thousand_hosts_are_summed_up(tmp_path: Path) -> None:
    names = [f"h{number:04}" for number in range(1000)]
    world = World(*names)
    for name in names[:300]:
        world.broken.add((name, "one"))
    from kubexm.plan import ExecutionNode
    from tests.unit.engine.world import Thing

    plan = bare_graph(ExecutionNode(id="m.t.one", step=Thing(name="one"), hosts=tuple(names)))
    shown = await live(tmp_path, world, plan, height=24)
    assert "1,000 hosts" in shown
    assert "300 with failures" in shown
    frames = shown.split("1,000 hosts")
    assert all(frame.count("\n") < 200 for frame in frames), "no line for each host"
    assert "h[0000:" in shown, "failures of the same kind are told together"


def test_a_stalled_reader_never_holds_up_the_run() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as stream:
        writer = LineWriter(stream)
        for _ in range(500):  # far more than a pipe holds
            writer.write("x" * 1000)
        closing = threading.Thread(target=writer.close)
        closing.start()
        got = sum(len(reader.readline()) for _ in range(500))
        closing.join()
    assert got == 500 * 1001
    assert not writer.broken


def test_a_reader_that_goes_is_noticed_and_forgotten() -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    writer = LineWriter(stream)
    writer.write("anybody?")
    writer.close()
    assert writer.broken
    writer.write("no matter")
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3900, "1 h 5 min"),
        (7200, "2 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_clock_and_count() -> None:
    assert (clock(65), clock(3723), clock(-1)) == ("1:05", "1:02:03", "0:00")
    assert (count(1, "host"), count(1000, "host"), count(2, "done", "done")) == ("1 host", "1,000 hosts", "2 done")


def test_cancelling_and_rollback_are_told() -> None:
    stream = io.StringIO()
    writer = LineWriter(stream)
    lines = PlainLines(writer)
    lines.on_event(Event(1, 10.0, EventKind.RUN_STARTED, data={"name": "create", "run": "r1", "units": 1, "hosts": []}))
    lines.on_event(Event(2, 11.0, EventKind.RUN_CANCELLING, data={"now": False}))
    lines.on_event(Event(3, 12.0, EventKind.HOST_LOST, host="w1", data={"reason": "it is gone"}))
    lines.on_event(Event(4, 13.0, EventKind.ROLLBACK_DONE, "m.t.one", "w1", {"ok": True}))
    lines.on_event(Event(5, 14.0, EventKind.ROLLBACK_DONE, "m.t.two", "w1", {"ok": False, "error": {"message": "no"}}))
    writer.close()
    assert stream.getvalue().splitlines() == [
        "create: run r1, 0 hosts, 1 unit",
        "     1.0 finishing what runs",
        "     2.0 LOST     w1",
        "         it is gone",
        "     3.0 undone   w1  m.t.one",
        "     4.0 NOT UNDONE w1  m.t.two",
        "         no",
    ]
