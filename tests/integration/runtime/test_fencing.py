"""A control machine cut off from the hosts that keep its lease stops, and hosts refuse what is left of it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, ConnectionPool, Connector, ReceiptState, Upload
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.engine.base import Cancellation
from kubexm.errors import FencedError, KubexmError, LeaseHeldError
from kubexm.plan import ExecutionGraph, RunStatus
from kubexm.runner.facts.model import LeaseLine
from kubexm.runtime import ClusterLease, Context
from kubexm.runtime import lease as lease_module
from kubexm.step import CommandRun, FileUploaded, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle
from kubexm.testing import SshServer, TcpProxy
from kubexm.testing.context import memory_context

from ..conftest import MakeServer

OWN_STATE = ("mount -t tmpfs -o mode=755 state /var/lib",)
ROLES = {"k1": frozenset({"controlPlane", "etcd"}), "w1": frozenset({"worker"}), "w2": frozenset({"worker"})}
LARGE = os.urandom(3_000_000)


class Site:
    """Three hosts behind sshd, and control machines that reach them, each through proxies of its own."""

    def __init__(self, make_sshd: MakeServer, directory: Path) -> None:
        self.servers: dict[str, SshServer] = {name: make_sshd(hostname=name, mounts=OWN_STATE) for name in ROLES}
        self._directory = directory
        self._machines: list[Machine] = []

    async def machine(self, user: str = "root") -> Machine:
        proxies = {name: TcpProxy("127.0.0.1", server.port) for name, server in self.servers.items()}
        pool = ConnectionPool(reconnect_for=2.0)
        connectors: dict[str, Connector] = {}
        for name, proxy in proxies.items():
            await proxy.__aenter__()
            server = self.servers[name]
            connectors[name] = pool.connector(
                name, server.settings(user, port=proxy.port, known_hosts=None, host_key=server.fingerprint)
            )
        directory = self._directory / f"machine{len(self._machines)}"
        made = Machine(memory_context(directory, connectors, roles=ROLES), proxies, pool, directory)
        self._machines.append(made)
        return made

    async def close(self) -> None:
        for machine in self._machines:
            for proxy in machine.proxies.values():
                proxy.heal()
            await machine.pool.close()
            for proxy in machine.proxies.values():
                await proxy.__aexit__(None, None, None)


class Machine:
    """One control machine."""

    def __init__(self, ctx: Context, proxies: dict[str, TcpProxy], pool: ConnectionPool, directory: Path) -> None:
        self.ctx = ctx
        self.proxies = proxies
        self.pool = pool
        self.directory = directory
        self.lost: asyncio.Future[KubexmError] = asyncio.get_running_loop().create_future()

    def lease(self, run: str) -> ClusterLease:
        def lost(error: KubexmError) -> None:
            self.lost.set_result(error)

        return ClusterLease(self.ctx, run, lost)

    def knows(self, run: str) -> None:
        """Its facts say that this run never gave its lease back."""
        keeper = self.ctx.host_runtimes["k1"]
        facts = replace(keeper.facts, lease=LeaseLine(token=1, owner="dead", run=run, expiry=1.0))
        runtimes = {**self.ctx.host_runtimes, "k1": replace(keeper, facts=facts)}
        self.ctx = replace(self.ctx, host_runtimes=runtimes)

    def connector(self, host: str) -> Connector:
        return self.ctx.host_runtimes[host].connector

    async def change(self, host: str, script: str, receipt: str = "") -> str:
        command = Command(script=script, changes=True, receipt=receipt)
        return (await self.connector(host).execute(command)).check().text

    async def read(self, host: str, script: str) -> str:
        return (await self.connector(host).execute(Command(script=script))).text

    async def run(self, run: str, *steps: Step) -> RunStatus:
        """The steps one after the other on w1, as a run of the service does them."""
        stop = Cancellation()

        def lost(error: KubexmError) -> None:
            self.lost.set_result(error)
            stop.cancel()
            stop.cancel()

        g = FragmentBuilder("cut.off")
        after: list[NodeHandle] = []
        for number, step in enumerate(steps):
            after = [g.add(f"step{number}", step, on=[self.ctx.host_runtimes["w1"].host], after=after)]
        graph = ExecutionGraph.build("cut", g.build(), known_hosts=list(ROLES))
        lease = ClusterLease(self.ctx, run, lost)
        await lease.acquire()
        journal = Journal.create(self.directory / f"journal-{run}")
        try:
            options = RunOptions(run=run, journal=journal, cancellation=stop)
            return (await LocalEngine().execute(self.ctx, graph, options)).status
        finally:
            await journal.close()
            await lease.release()


@pytest.fixture
async def site(make_sshd: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(lease_module, "TTL", 4)
    monkeypatch.setattr(lease_module, "_PATIENCE", 1.0)
    made = Site(make_sshd, tmp_path)
    yield made
    await made.close()


async def take_over(machine: Machine, run: str, dead: str) -> ClusterLease:
    """As soon as the lease of the other has run out on the host that keeps it."""
    machine.knows(dead)
    lease = machine.lease(run)
    async with asyncio.timeout(60):
        while True:
            try:
                await lease.acquire()
            except LeaseHeldError:
                await asyncio.sleep(0.2)
            else:
                return lease


def say(word: str, *, wait: bool = False) -> CommandRun:
    script = f"echo {word} >>/run/log" + ("; sleep 600" if wait else "")
    return CommandRun(command=script, name=word, touches=resources("thing:log"))


@pytest.mark.parametrize("user", ["root", "ops"])
async def test_cut_off_between_two_changes(site: Site, user: str) -> None:
    one, two = await site.machine(user), await site.machine(user)
    first = one.lease("run-1")
    await first.acquire()
    await one.change("w1", "echo one >>/run/log")
    one.proxies["k1"].stall()
    error = await asyncio.wait_for(one.lost, 60)
    assert isinstance(error, FencedError)
    assert "could not be renewed on k1" in error.message
    for host in ("w1", "w2"):
        with pytest.raises(FencedError, match="expired before it could be renewed"):
            await one.change(host, "echo late >>/run/log")
        with pytest.raises(FencedError, match="expired"):
            await one.connector(host).upload(Upload(source=b"late\n", path=PurePosixPath("/run/late")))
    assert await one.read("w1", "cat /run/log") == "one", "reading is allowed"
    # Another run takes over. Hosts refuse the first one whatever that believes, before anything was changed there.
    second = await take_over(two, "run-2", "run-1")
    for sudo in (True, False):
        one.connector("w2").fence(None, 1)
        with pytest.raises(FencedError, match=r"a newer run holds this cluster's lease \(token 2\)"):
            await one.connector("w2").execute(Command(script="echo late >>/run/log", changes=True, sudo=sudo))
    for source in (b"late\n", LARGE):
        with pytest.raises(FencedError, match="token 2"):
            await one.connector("w2").upload(Upload(source=source, path=PurePosixPath("/run/late")))
    await two.change("w2", "echo two >>/run/log")
    assert await two.read("w2", "cat /run/log; ls /run/late* /run/.*.part 2>/dev/null") == "two"
    assert await two.read("w2", "ls /run/kubexm/ | grep -c '^late\\|fence.1$'") == "0"
    one.proxies["k1"].heal()
    await first.release()
    await second.release()


async def test_cut_off_in_a_change(site: Site) -> None:
    one, two = await site.machine(), await site.machine()
    running = asyncio.ensure_future(one.run("run-1", say("one", wait=True), say("never")))
    async with asyncio.timeout(60):
        while await two.read("w1", "cat /run/log 2>/dev/null") != "one":
            await asyncio.sleep(0.1)
    for proxy in one.proxies.values():
        proxy.stall()  # so that it cannot end its command either
    second = await take_over(two, "run-2", "run-1")
    (left,) = await two.connector("w1").settle("run-1.", wait=0)
    assert left.state is ReceiptState.ENDED, "nothing of the first run goes on once another has begun"
    await two.change("w1", "echo two >>/run/log")
    for proxy in one.proxies.values():
        proxy.heal()
    assert await asyncio.wait_for(running, 120) in (RunStatus.INTERRUPTED, RunStatus.FAILED, RunStatus.CANCELLED)
    assert one.lost.done()
    assert await two.read("w1", "cat /run/log") == "one\ntwo"
    await second.release()


async def test_cut_off_in_an_upload(site: Site, tmp_path: Path) -> None:
    one, two = await site.machine(), await site.machine()
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_bytes(LARGE)
    other.write_bytes(LARGE[::-1])
    path, digest = PurePosixPath("/run/file"), hashlib.sha256(LARGE).hexdigest()
    await one.read("w1", ":")
    one.proxies["w1"].stall_after(len(LARGE) // 2)
    running = asyncio.ensure_future(
        one.run("run-1", FileUploaded(source=str(mine), path=path, sha256=digest), say("never"))
    )
    async with asyncio.timeout(60):
        while await two.read("w1", "ls /run/.kubexm-file-*.part 2>/dev/null | wc -l") != "1":
            await asyncio.sleep(0.1)
    one.proxies["k1"].stall()
    second = await take_over(two, "run-2", "run-1")
    left = [receipt.state for receipt in await two.connector("w1").settle("run-1.", wait=0)]
    assert left.count(ReceiptState.ENDED) == 1, "an upload that is under way is seen, and ended"
    assert ReceiptState.RUNNING not in left
    assert await two.connector("w1").upload(Upload(source=other, path=path))
    for proxy in one.proxies.values():
        proxy.heal()
    status = await asyncio.wait_for(running, 120)
    assert status in (RunStatus.INTERRUPTED, RunStatus.FAILED, RunStatus.CANCELLED)
    down = tmp_path / "down"
    await two.connector("w1").download(path, down)
    assert down.read_bytes() == other.read_bytes()
    assert await two.read("w1", "ls /run/log 2>/dev/null") == ""
    await second.release()


async def test_a_run_that_follows_a_finished_one_leaves_its_token_with_its_first_change(site: Site) -> None:
    one, two = await site.machine(), await site.machine()
    first = one.lease("run-1")
    await first.acquire()
    await first.release()
    second = two.lease("run-2")
    await second.acquire()
    await two.change("w1", "echo two >>/run/log")
    one.connector("w1").fence(None, 1)  # a message of the first run that was held up on its way
    with pytest.raises(FencedError, match="token 2"):
        await one.change("w1", "echo late >>/run/log")
    await second.release()
    third = one.lease("run-3")
    await third.acquire()
    assert await one.change("w1", "cat /run/log") == "two", "the newest may go on"
    await third.release()
    await one.connector("w1").forget("")
    assert await one.read("w1", "ls /run/kubexm | grep -c fence") == "0"


async def test_writers_of_the_same_file_do_not_share_what_is_unfinished(site: Site) -> None:
    one, two = await site.machine(), await site.machine()
    path = PurePosixPath("/run/file")
    await one.read("w1", ":")
    one.proxies["w1"].stall_after(len(LARGE) // 2)
    sending = asyncio.ensure_future(one.connector("w1").upload(Upload(source=LARGE, path=path)))
    async with asyncio.timeout(60):
        while await two.read("w1", "ls /run/.kubexm-file-*.part 2>/dev/null | wc -l") != "1":
            await asyncio.sleep(0.1)
    assert await two.connector("w1").upload(Upload(source=LARGE, path=path)), "it does not wait for the first"
    one.proxies["w1"].heal()
    await asyncio.wait_for(sending, 60)
    assert await two.read("w1", "ls -A /run | grep -c part") == "0"


async def test_what_a_writer_that_is_gone_left_unfinished_is_continued(site: Site) -> None:
    one, two = await site.machine(), await site.machine()
    path = PurePosixPath("/run/file")
    await one.read("w1", ":")
    one.proxies["w1"].stall_after(len(LARGE) // 2)
    sending = asyncio.ensure_future(one.connector("w1").upload(Upload(source=LARGE, path=path)))
    part = "cat /run/.kubexm-file-*.part 2>/dev/null | wc -c"
    async with asyncio.timeout(60):
        while int(await two.read("w1", part)) < len(LARGE) // 4:
            await asyncio.sleep(0.1)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    site.servers["w1"].cut()
    async with asyncio.timeout(60):
        while await two.read("w1", "ps -eo args | grep -c '^cat$'") != "0":
            await asyncio.sleep(0.1)
    before = two.proxies["w1"].passed
    assert await two.connector("w1").upload(Upload(source=LARGE, path=path))
    assert two.proxies["w1"].passed - before < len(LARGE) * 0.9
    assert await two.read("w1", "ls -A /run | grep -c part") == "0"
