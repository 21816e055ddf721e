"""One writer: two holders exclude each other, whoever was taken over can change nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, Connector, LocalConnector
from kubexm.errors import FencedError, HostError, KubexmError, LeaseHeldError, OutcomeUnknown
from kubexm.runner import Lease, Runner
from kubexm.runner.facts.model import LeaseLine
from kubexm.runtime import ClusterLease, Context, HostRuntime
from kubexm.runtime import lease as lease_module
from kubexm.testing.context import memory_context
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root

ROLES = {"cp1": frozenset({"controlPlane"}), "db1": frozenset({"etcd"}), "w1": frozenset({"worker"})}
Machine = Callable[[], Context]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A way to make contexts of several kubexm processes, all with the same three hosts."""
    made: list[Connector] = []

    def context() -> Context:
        connectors: dict[str, Connector] = {
            name: LocalConnector(name, store=PurePosixPath(tmp_path / "receipts")) for name in ROLES
        }
        made.extend(connectors.values())
        ctx = memory_context(tmp_path / f"work{len(made)}", connectors, roles=ROLES)
        runtimes = {
            name: HostRuntime(one.host, one.connector, one.facts, Runner(PurePosixPath(tmp_path / name)))
            for name, one in ctx.host_runtimes.items()
        }
        return replace(ctx, host_runtimes=runtimes)

    yield context
    await asyncio.gather(*(connector.close() for connector in made))


def never(error: KubexmError) -> None:
    raise AssertionError(error)


async def on_host(ctx: Context, name: str) -> Lease | None:
    return await ctx.host_runtimes[name].lease.read()


async def touch(ctx: Context, name: str) -> int:
    result = await ctx.host_runtimes[name].connector.execute(Command(script="true", changes=True))
    return result.exit_code


async def test_it_is_taken_on_control_planes_and_etcd_and_given_back(machine: Machine) -> None:
    ctx = machine()
    lease = ClusterLease(ctx, "run-1", never)
    await lease.acquire()
    held = [await on_host(ctx, name) for name in ("cp1", "db1")]
    assert all(one is not None and one.held and one.run == "run-1" for one in held)
    assert await on_host(ctx, "w1") is None
    assert await touch(ctx, "cp1") == 0, "its own token is the newest"
    await lease.release()
    freed = [await on_host(ctx, name) for name in ("cp1", "db1")]
    assert all(one is not None and not one.held and one.token == 1 for one in freed)
    await lease.release()


async def test_two_holders_exclude_each_other(machine: Machine) -> None:
    one, two = machine(), machine()
    first, second = ClusterLease(one, "run-1", never), ClusterLease(two, "run-2", never)
    await first.acquire()
    with pytest.raises(LeaseHeldError, match=r"cp1: .* is changing this cluster \(run run-1\)") as caught:
        await second.acquire()
    assert (caught.value.run, caught.value.host) == ("run-1", "cp1")
    assert "runs out" in caught.value.hint
    await second.release()
    held = await on_host(one, "cp1")
    assert held is not None
    assert held.held, "who did not get it gives nothing back"
    await first.release()
    await second.acquire()
    await second.release()


async def test_it_is_all_or_nothing(machine: Machine) -> None:
    ctx = machine()
    await ctx.host_runtimes["db1"].lease.acquire(owner="somebody", run="run-9", ttl=600)
    with pytest.raises(LeaseHeldError, match="db1: somebody is changing"):
        await ClusterLease(ctx, "run-1", never).acquire()
    left = await on_host(ctx, "cp1")
    assert left is not None
    assert not left.held
    assert await touch(ctx, "cp1") == 0


@pytest.mark.parametrize("host", ["cp1", "w1"])
async def test_what_a_run_that_died_left_running_is_over_before_another_begins(
    machine: Machine, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lease_module, "_PATIENCE", 0.2)
    dead, ctx = machine(), machine()
    others = [
        asyncio.ensure_future(
            dead.host_runtimes[host].connector.execute(
                Command(script=f"echo >{tmp_path / run}; sleep 60", changes=True, receipt=f"{run}.4.1.1")
            )
        )
        for run in ("run-1", "run-3")
    ]
    while not all((tmp_path / run).exists() for run in ("run-1", "run-3")):
        await asyncio.sleep(0.02)
    keeper = ctx.host_runtimes["cp1"]
    was = replace(keeper.facts, lease=LeaseLine(token=4, owner="dead", run="run-1", expiry=1.0))
    runtimes = {**ctx.host_runtimes, "cp1": replace(keeper, facts=was)}
    lease = ClusterLease(replace(ctx, host_runtimes=runtimes), "run-2", never)
    await lease.acquire()
    with pytest.raises(OutcomeUnknown, match="kubexm ended it"):
        await others[0]
    assert not others[1].done(), "what is not the dead run's is left alone"
    others[1].cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await lease.release()


async def test_one_that_ran_out_is_taken_over(machine: Machine) -> None:
    dead, ctx = machine(), machine()
    for name in ("cp1", "db1"):
        await dead.host_runtimes[name].lease.acquire(owner="dead", run="run-1", ttl=0)
    lease = ClusterLease(ctx, "run-2", never)
    await lease.acquire()
    held = await on_host(ctx, "cp1")
    assert held is not None
    assert (held.run, held.token) == ("run-2", 2)
    await lease.release()


async def test_resuming_a_run_takes_its_own_lease_over_and_fences_the_old_process(machine: Machine) -> None:
    old, new = machine(), machine()
    first, second = ClusterLease(old, "run-1", never), ClusterLease(new, "run-1", never)
    await first.acquire()
    await second.acquire()
    with pytest.raises(FencedError):
        await touch(old, "cp1")
    assert await touch(new, "cp1") == 0
    await first.release()
    held = await on_host(new, "cp1")
    assert held is not None
    assert held.held, "the old process cannot give away what is no longer its own"
    await second.release()


async def test_whoever_was_taken_over_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "TTL", 1)
    told: asyncio.Future[KubexmError] = asyncio.get_running_loop().create_future()
    old, new = machine(), machine()
    first = ClusterLease(old, "run-1", told.set_result)
    await first.acquire()
    taken = await new.host_runtimes["db1"].lease.acquire(owner="thief", run="run-1", ttl=600)
    assert taken.token == 2
    assert isinstance(await asyncio.wait_for(told, 30), FencedError)
    await first.release()


async def test_it_is_renewed_while_it_is_held(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "TTL", 3)
    ctx = machine()
    lease = ClusterLease(ctx, "run-1", never)
    await lease.acquire()
    before = await on_host(ctx, "cp1")
    assert before is not None
    async with asyncio.timeout(30):
        while (now := await on_host(ctx, "cp1")) is not None and now.expiry <= before.expiry:
            await asyncio.sleep(0.05)
    await lease.release()


async def test_tokens_stay_above_those_of_every_host(machine: Machine) -> None:
    ctx = machine()
    runtimes = dict(ctx.host_runtimes)
    runtimes["db1"] = replace(runtimes["db1"], facts=replace(runtimes["db1"].facts, lease=LeaseLine(token=41)))
    lease = ClusterLease(replace(ctx, host_runtimes=runtimes), "run-1", never)
    await lease.acquire()
    held = await on_host(ctx, "cp1")
    assert held is not None
    assert held.token >= 41
    await lease.release()


async def test_a_host_that_was_not_reached_keeps_no_lease_and_no_cluster_needs_none(machine: Machine) -> None:
    ctx = machine()
    unreached = {"cp1": HostError("gone", host="cp1")}
    rest = {name: one for name, one in ctx.host_runtimes.items() if name != "cp1"}
    lease = ClusterLease(replace(ctx, host_runtimes=rest, unreached=unreached), "run-1", never)
    await lease.acquire()
    assert await on_host(ctx, "cp1") is None
    await lease.release()
    alone = ClusterLease(replace(ctx, host_runtimes={"w1": rest["w1"]}), "run-1", never)
    await alone.acquire()
    await alone.release()
    assert await on_host(ctx, "w1") is None
