"""The connector of one unit: reads until told to change, receipts of its own, all output recorded."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.connector import Command, Stream, Upload
from kubexm.runtime import Transcript, UnitConnector
from kubexm.testing import MemoryConnector

READ = Command(script="look")
CHANGE = Command(script="do it", changes=True)


def host() -> MemoryConnector:
    return MemoryConnector("n1").on("look", stdout="seen").on("do it", stdout="done\n", stderr="well\n")


async def test_a_precheck_may_look_and_not_touch() -> None:
    inner = host()
    unit = UnitConnector(inner, Transcript)
    assert (await unit.execute(READ)).text == "seen"
    for touch in (unit.execute(CHANGE), unit.upload(Upload(source=b"x", path=PurePosixPath("/x")))):
        with pytest.raises(AssertionError, match="must not change anything"):
            await touch
    assert inner.scripts == ["look"]
    assert not inner.files


async def test_changes_carry_numbered_receipts_of_the_unit() -> None:
    inner = host()
    unit = UnitConnector(inner, Transcript)
    unit.begin("r1.7.1")
    await unit.execute(CHANGE)
    await unit.execute(READ)
    await unit.execute(Command(script="do it", changes=True, receipt="own"))
    await unit.execute(CHANGE)
    assert [command.receipt for command in inner.commands] == ["r1.7.1.1", "", "own", "r1.7.1.3"]
    assert [receipt.name for receipt in await unit.settle("r1.7.1.", wait=0)] == ["r1.7.1.1", "r1.7.1.3"]
    unit.end()
    with pytest.raises(AssertionError):
        await unit.execute(CHANGE)
    unit.begin("r1.7.2")
    await unit.execute(CHANGE)
    assert inner.commands[-1].receipt == "r1.7.2.1", "a new attempt counts anew"


async def test_output_of_changes_is_recorded_and_reads_are_not() -> None:
    transcript = Transcript()
    own: list[tuple[Stream, bytes]] = []
    unit = UnitConnector(host(), lambda: transcript)
    unit.begin("r")
    await unit.execute(Command(script="do it", changes=True, sink=lambda stream, data: own.append((stream, data))))
    await unit.execute(READ)
    assert (transcript.text("stdout"), transcript.text("stderr")) == ("done\n", "well\n")
    assert own == [("stdout", b"done\n"), ("stderr", b"well\n")], "the step's own listener hears it too"


async def test_what_is_told_is_recorded_in_place_of_what_a_change_printed_if_it_ends_well() -> None:
    memory = MemoryConnector("n1").on("good", stdout="{rows}", stderr="Warning: old\n")
    memory.on("bad", stdout="half\n", stderr="Error: no\n", exit_code=1)
    transcript = Transcript()
    unit = UnitConnector(memory, lambda: transcript)
    unit.begin("r.1.1")
    result = await unit.execute(Command(script="good", changes=True, told="configmap/a applied"))
    assert result.text == "{rows}"
    await unit.execute(Command(script="bad", changes=True, told="configmap/b applied"))
    assert transcript.text("stdout") == "configmap/a applied\nhalf\n"
    assert transcript.text("stderr") == "Warning: old\nError: no\n"


async def test_requests_over_streams_change_nothing_in_a_precheck_and_are_recorded_later() -> None:
    memory, transcript = MemoryConnector("n1"), Transcript()
    unit = UnitConnector(memory, lambda: transcript)
    async with unit.streams.exchange("list nodes"):
        pass
    with pytest.raises(AssertionError, match="must not change anything: apply configmap/a"):
        async with unit.streams.exchange("apply configmap/a", changes=True):
            raise AssertionError("the change was let through")
    unit.begin("r.1.1")
    async with unit.streams.exchange("apply configmap/b", changes=True):
        pass
    with pytest.raises(ConnectionResetError):
        async with unit.streams.exchange("apply configmap/c", changes=True):
            raise ConnectionResetError
    assert memory.streams.changes == ["apply configmap/b"]
    assert transcript.text("stdout") == "apply configmap/b\n"
    assert unit.busy > 0.0


async def test_everything_else_goes_straight_through(tmp_path: Path) -> None:
    inner = host()
    unit = UnitConnector(inner, Transcript)
    unit.begin("r")
    assert await unit.upload(Upload(source=b"x", path=PurePosixPath("/x")))
    await unit.download(PurePosixPath("/x"), tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"x"
    assert (unit.host, await unit.boot_id()) == ("n1", "boot-1")
    await unit.connect()
    await unit.close()
    assert inner.connected, "the connection is the pool's"


@given(pieces=st.lists(st.integers(0, 40_000)))
def test_head_and_tail_are_kept_and_what_is_missing_is_counted(pieces: list[int]) -> None:
    sunk = bytearray()
    transcript = Transcript(lambda _, data: sunk.extend(data))
    whole = b""
    for number, size in enumerate(pieces):
        data = (b"%04d" % number * (size // 4 + 1))[:size]
        whole += data
        transcript.write("stdout", data)
    assert bytes(sunk) == whole, "the sink gets all of it"
    text = transcript.text("stdout").encode()
    if len(whole) <= 64 * 1024:
        assert text == whole
        return
    head, gap, tail = text.partition(b"\n\xe2\x80\xa6 ")
    missing, _, tail = tail.partition(b" bytes left out \xe2\x80\xa6\n")
    assert gap
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(missing) + len(tail) == len(whole)
    assert len(head) == len(tail) == 32 * 1024
    assert transcript.text("stderr") == ""
