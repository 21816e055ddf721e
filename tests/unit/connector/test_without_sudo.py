"""The control node: kubexm runs there as whoever started it, and never asks for more."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, ConnectionPool, LocalConnector, Upload
from kubexm.errors import SudoError
from kubexm.runner import Runner
from kubexm.runtime import CONTROL_NODE, RuntimeBuilder
from tests.unit.runtime.clusters import cluster_file

CLOSED = """
hosts:
  - {name: cp1, address: 127.0.0.1, port: 1, user: root, password: never-used-1}
  - {name: w1, address: 127.0.0.11, port: 1, user: root, password: never-used-1}
roleGroups: {etcd: [cp1], controlPlane: [cp1], worker: [w1]}
"""


@pytest.fixture
def sudo_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user whose sudo wants a password, whoever runs the tests; each call of sudo is logged there."""
    programs, log = tmp_path / "programs", tmp_path / "sudo.log"
    programs.mkdir()
    log.touch()
    scripts = {
        "sudo": f"echo \"$*\" >>'{log}'\necho 'sudo: a password is required' >&2\nexit 1",
        "id": "echo 1000",
    }
    for name, body in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("kubexm.connector.local.os.geteuid", lambda: 1000)
    return log


async def test_the_control_node_reads_changes_and_uploads_without_sudo(tmp_path: Path, sudo_log: Path) -> None:
    connector = LocalConnector("control-node", sudo=False, store=PurePosixPath(tmp_path / "receipts"))
    target = tmp_path / "uploaded"
    try:
        facts = await Runner().gather_facts(connector)
        assert facts.hostname == os.uname().nodename
        script = f"echo changed >'{tmp_path}/changed'"
        assert (await connector.execute(Command(script=script, changes=True, receipt="run-1"))).ok
        assert await connector.upload(Upload(source=b"x" * 100_000, path=PurePosixPath(target), owner="nobody"))
        await connector.download(PurePosixPath(target), tmp_path / "downloaded")
        assert [receipt.exit_code for receipt in await connector.settle("run-1", wait=1.0)] == [0]
        await connector.forget("run-1")
    finally:
        await connector.close()
    assert (tmp_path / "changed").read_text() == "changed\n"
    assert (tmp_path / "downloaded").read_bytes() == b"x" * 100_000
    assert target.stat().st_uid == tmp_path.stat().st_uid, "uploaded files belong to the user"
    assert sudo_log.read_text() == ""


async def test_a_local_host_of_the_cluster_still_uses_sudo(tmp_path: Path, sudo_log: Path) -> None:
    connector = LocalConnector("n1", store=PurePosixPath(tmp_path / "receipts"))
    try:
        with pytest.raises(SudoError):
            await connector.execute(Command(script=":"))
    finally:
        await connector.close()
    assert sudo_log.read_text() != ""


async def test_both_stand_side_by_side_in_one_pool(tmp_path: Path, sudo_log: Path) -> None:
    pool = ConnectionPool()
    control, host = pool.local(CONTROL_NODE, sudo=False), pool.local("n1")
    try:
        answers = await asyncio.gather(
            control.execute(Command(script="echo hello")), host.execute(Command(script=":")), return_exceptions=True
        )
    finally:
        await pool.close()
    assert getattr(answers[0], "text", "") == "hello"
    assert isinstance(answers[1], SudoError)


async def test_a_context_is_built_by_a_user_who_may_not_use_sudo(tmp_path: Path, sudo_log: Path) -> None:
    ctx = await RuntimeBuilder(cluster_file(tmp_path, CLOSED), tolerate=True).build()
    try:
        assert set(ctx.unreached) == {"cp1", "w1"}
        assert (await ctx.host_runtimes[CONTROL_NODE].command.read("echo hello")).text == "hello"
        await ctx.host_runtimes[CONTROL_NODE].command.run("true")
    finally:
        await ctx.close()
    assert sudo_log.read_text() == ""
