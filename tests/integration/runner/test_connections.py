"""The same operations over every real way to a host: this machine, SSH as root, SSH as a user whose sudo asks."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import ConnectionPool, Connector, LocalConnector
from kubexm.errors import CommandError, FencedError
from kubexm.runner import ClusterMarker, Facts, Outcome, Runner
from kubexm.testing import SshServer, why_no_sshd


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    if reason := why_no_sshd():
        pytest.skip(reason)
    # Not below pytest's own directory: that is closed to users other than root.
    with tempfile.TemporaryDirectory(prefix="kubexm-sshd-") as directory:
        Path(directory).chmod(0o755)
        with SshServer(directory=Path(directory), hostname="kubexm-test") as server:
            yield server


@pytest.fixture(params=["local", "root", "ops"])
async def connector(request: pytest.FixtureRequest, server: SshServer, tmp_path: Path) -> AsyncIterator[Connector]:
    pool = ConnectionPool()
    if request.param == "local":
        local = LocalConnector("n1", store=PurePosixPath(tmp_path) / "receipts")
        yield local
        await local.close()
    else:
        yield pool.connector("n1", server.settings(request.param))
    await pool.close()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(PurePosixPath(tmp_path) / "state")


@pytest.fixture
def scratch(tmp_path: Path) -> PurePosixPath:
    return PurePosixPath(tmp_path) / "scratch dir"


async def test_facts(connector: Connector, runner: Runner, request: pytest.FixtureRequest) -> None:
    facts = await runner.gather_facts(connector)
    assert facts.uid == 0
    way = request.node.callspec.params["connector"]
    assert facts.sudo_user == ("ops" if way == "ops" else os.environ.get("SUDO_USER", "") if way == "local" else "")
    assert facts.boot_id == await connector.boot_id()
    assert facts.hostname == (os.uname().nodename if way == "local" else "kubexm-test")
    assert abs(facts.clock.offset) <= facts.clock.error + 0.1
    assert facts.has_command("sha256sum")


async def test_files(connector: Connector, runner: Runner, scratch: PurePosixPath, tmp_path: Path) -> None:
    facts = Facts.assumed()
    files, originals = runner.files(connector, facts), runner.originals(connector, facts)
    content = bytes(range(256)) * 40
    assert await files.write(scratch / "a/binary", content, mode=0o640, owner="daemon", group="adm")
    assert not await files.write(scratch / "a/binary", content, mode=0o640, owner="daemon", group="adm")
    assert await files.read(scratch / "a/binary") == content
    assert await files.matches(scratch / "a/binary", content=content, mode=0o640, owner="daemon", group="adm")
    assert await files.line(scratch / "a/lines", "one")
    assert await files.line(scratch / "a/lines", "two")
    assert await files.text(scratch / "a/lines") == "one\ntwo\n"
    assert await files.write(scratch / "empty", "")
    assert await files.read(scratch / "empty") == b""

    large = tmp_path / "large"
    large.write_bytes(os.urandom(3_000_000))
    assert await files.upload(large, scratch / "a/large", mode=0o755)
    assert not await files.upload(large, scratch / "a/large", mode=0o755)
    await files.download(scratch / "a/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    assert await files.matches(scratch / "a/large", content=large.read_bytes(), mode=0o755, owner="root")

    assert {r.outcome for r in await originals.restore()} == {Outcome.RESTORED}
    assert not await files.exists(scratch)


async def test_reads_of_one_tick_come_back_to_their_callers(
    connector: Connector, runner: Runner, scratch: PurePosixPath
) -> None:
    files = runner.files(connector, Facts.assumed())
    await asyncio.gather(*(files.write(scratch / f"f{i}", f"content {i}\n" * i) for i in range(12)))
    reads = [files.text(scratch / f"f{i}") for i in range(12)]
    stats = [files.stat(scratch / f"f{i}") for i in range(12)]
    absent = [files.read(scratch / f"g{i}") for i in range(4)]
    texts, found, missing = await asyncio.gather(
        asyncio.gather(*reads), asyncio.gather(*stats), asyncio.gather(*absent)
    )
    assert texts == [f"content {i}\n" * i for i in range(12)]
    assert [s.size for s in found if s] == [len(text or "") for text in texts]
    assert missing == [None] * 4


async def test_errors_and_stdin(connector: Connector, runner: Runner) -> None:
    command = runner.command(connector, Facts.assumed())
    assert (await command.run("id -u; cat", stdin=b"\0in\n")).stdout == b"0\n\0in\n"
    with pytest.raises(CommandError, match="exited with 9: no such luck"):
        await command.run("echo no such luck >&2; exit 9")
    assert await command.succeeds(["test", "-e", "/"])


async def test_the_lease_fences_every_change(connector: Connector, runner: Runner) -> None:
    facts = Facts.assumed()
    leases = runner.lease(connector, facts)
    lease = await leases.acquire(owner="a", run="r1", ttl=60)
    connector.fence(leases.path, lease.token)
    assert await runner.marker(connector, facts).write(ClusterMarker(uid="u", name="n"))
    await leases.renew(lease, ttl=0)
    connector.fence(leases.path, None)
    await leases.acquire(owner="b", run="r2", ttl=60)
    connector.fence(leases.path, lease.token)
    with pytest.raises(FencedError):
        await runner.marker(connector, facts).remove()
    assert await runner.marker(connector, facts).read() is not None
    found = (await runner.gather_facts(connector)).lease
    assert found is not None
    assert (found.owner, found.run, found.token) == ("b", "r2", lease.token + 1)
