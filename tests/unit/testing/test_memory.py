"""The in-memory connector keeps the contract, and refuses what it was not told."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, Connector, ReceiptState, Stream, Upload
from kubexm.errors import CommandTimeout, ConnectionLost, FencedError, TransferError
from kubexm.testing import MemoryConnector, MemoryFile, UnexpectedCommand


def test_it_is_a_connector() -> None:
    connector: Connector = MemoryConnector("n1")
    assert connector.host == "n1"


async def test_unknown_commands_are_refused_with_what_is_known() -> None:
    host = MemoryConnector("n1", answers={"hostname": "n1\n"})
    host.on(re.compile(r"systemctl .*"), times=1)
    assert (await host.execute(Command(script="hostname"))).text == "n1"
    with pytest.raises(
        UnexpectedCommand, match=r"(?s)n1 was asked for:\n  reboot\n.*hostname.*/systemctl \.\*/ \(1 left\)"
    ):
        await host.execute(Command(script="reboot"))
    assert host.scripts == ["hostname"]


async def test_the_newest_answer_wins_and_runs_out() -> None:
    host = MemoryConnector().on("x", stdout="old").on("x", stdout="new", exit_code=2, times=1)
    first, second = await host.execute(Command(script="x")), await host.execute(Command(script="x"))
    assert (first.text, first.exit_code, second.text) == ("new", 2, "old")


async def test_callbacks_and_errors() -> None:
    async def later(command: Command) -> str:
        return command.script.upper()

    host = MemoryConnector().on(re.compile("a.*"), callback=later).on("b", callback=lambda command: 3)
    host.on("c", error=ConnectionLost("gone")).on("d", callback=lambda command: asyncio.sleep(60))
    assert (await host.execute(Command(script="abc"))).text == "ABC"
    assert (await host.execute(Command(script="b"))).exit_code == 3
    with pytest.raises(ConnectionLost):
        await host.execute(Command(script="c"))
    with pytest.raises(CommandTimeout):
        await host.execute(Command(script="d", timeout=0.01))


async def test_changes_run_once_per_receipt() -> None:
    seen: list[tuple[Stream, bytes]] = []
    host = MemoryConnector().on("do", stdout="done", stderr="hm", exit_code=4)
    command = Command(script="do", changes=True, receipt="r.1", sink=lambda stream, data: seen.append((stream, data)))
    assert (await host.execute(command)).exit_code == 4
    assert (await host.execute(command)).stdout == b"done"
    assert host.scripts == ["do"]
    assert seen == [("stdout", b"done"), ("stderr", b"hm")]
    (receipt,) = await host.settle("r.", wait=0)
    assert (receipt.state, receipt.exit_code) == (ReceiptState.EXITED, 4)
    host.reboot("boot-2")
    assert await host.settle("r.", wait=0) == ()
    assert await host.boot_id() == "boot-2"


async def test_settling_waits_then_gives_up() -> None:
    go = asyncio.Event()

    async def wait(command: Command) -> str:
        await go.wait()
        return "done"

    host = MemoryConnector().on("do", callback=wait)
    running = asyncio.ensure_future(host.execute(Command(script="do", changes=True, receipt="r")))
    await asyncio.sleep(0)
    (ended,) = await host.settle("r", wait=0.01)
    assert ended.state is ReceiptState.ENDED
    go.set()
    await running
    (done,) = await host.settle("r", wait=1)
    assert done.state is ReceiptState.EXITED


async def test_files(tmp_path: Path) -> None:
    host = MemoryConnector(files={"/etc/x": "old"})
    upload = Upload(source=b"new", path=PurePosixPath("/etc/x"), mode=0o600)
    assert await host.upload(upload)
    assert not await host.upload(upload)
    assert host.files[PurePosixPath("/etc/x")] == MemoryFile(content=b"new", mode=0o600)
    await host.download(PurePosixPath("/etc/x"), tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TransferError, match="does not exist"):
        await host.download(PurePosixPath("/none"), tmp_path / "y")
    with pytest.raises(TransferError, match="sha256"):
        await host.upload(Upload(source=b"x", path=PurePosixPath("/x"), sha256="0" * 64))


async def test_the_fence() -> None:
    host = MemoryConnector().on("do")
    host.fence(PurePosixPath("/lease"), 3)
    await host.execute(Command(script="do", changes=True))
    host.put("/lease", "4 other")
    with pytest.raises(FencedError):
        await host.execute(Command(script="do", changes=True))
    with pytest.raises(FencedError):
        await host.upload(Upload(source=b"x", path=PurePosixPath("/x")))
    await host.execute(Command(script="do"))
    host.fence(PurePosixPath("/lease"), None)
    await host.execute(Command(script="do", changes=True))
