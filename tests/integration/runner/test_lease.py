"""The lease on one host, with real locks and the real clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubexm.errors import FencedError, HostError, LeaseHeldError
from kubexm.runner import Facts, Lease, Leases


@pytest.fixture
def leases(sandbox: Any, facts: Facts) -> Leases:
    return Leases(sandbox, facts)


async def test_life_of_a_lease(sandbox: Any, leases: Leases) -> None:
    assert await leases.read() is None
    lease = await leases.acquire(owner='me@laptop: "x y"', run="run-1", ttl=60)
    assert (lease.token, lease.owner, lease.run, lease.held) == (1, 'me@laptop: "x y"', "run-1", True)
    assert 0 < lease.remaining <= 60
    line = sandbox.sh("cat /var/lib/kubexm/lease").split()
    assert line[0] == "1"
    assert len(line) == 4
    renewed = await leases.renew(lease, ttl=120)
    assert renewed.token == 1
    assert renewed.expiry > lease.expiry
    assert await leases.release(renewed)
    read = await leases.read()
    assert read is not None
    assert (read.token, read.owner, read.held) == (1, "", False)
    again = await leases.acquire(owner="other", run="run-2", ttl=60)
    assert again.token == 2


async def test_another_run_is_kept_out_until_it_expires(leases: Leases) -> None:
    lease = await leases.acquire(owner="a", run="run-1", ttl=60)
    with pytest.raises(LeaseHeldError) as caught:
        await leases.acquire(owner="b", run="run-2", ttl=60)
    assert (caught.value.owner, caught.value.run) == ("a", "run-1")
    await leases.renew(lease, ttl=0)
    taken = await leases.acquire(owner="b", run="run-2", ttl=60)
    assert taken.token == lease.token + 1
    with pytest.raises(FencedError, match="taken over by b"):
        await leases.renew(lease, ttl=60)
    assert not await leases.release(lease)
    read = await leases.read()
    assert read is not None
    assert read.owner == "b"


async def test_the_same_run_takes_over_its_own_with_a_newer_token(leases: Leases) -> None:
    first = await leases.acquire(owner="a", run="run-1", ttl=60)
    second = await leases.acquire(owner="a", run="run-1", ttl=60)
    assert second.token == first.token + 1
    with pytest.raises(FencedError):
        await leases.renew(first, ttl=60)
    with pytest.raises(LeaseHeldError):
        await leases.acquire(owner="a", run="run-1", ttl=60, takeover_same_run=False)


async def test_tokens_can_be_brought_level(leases: Leases) -> None:
    assert (await leases.acquire(owner="a", run="r", ttl=60, token_floor=41)).token == 41
    assert (await leases.acquire(owner="a", run="r", ttl=60, token_floor=5)).token == 42


async def test_of_many_at_once_one_wins(leases: Leases) -> None:
    async def attempt(run: int) -> Lease | None:
        try:
            return await leases.acquire(owner="a", run=f"run-{run}", ttl=60)
        except LeaseHeldError:
            return None

    won = [lease for lease in await asyncio.gather(*(attempt(run) for run in range(8))) if lease]
    assert len(won) == 1
    assert won[0].token == 1


async def test_a_damaged_lease_is_not_taken_for_a_free_one(sandbox: Any, leases: Leases) -> None:
    sandbox.sh("mkdir -p /var/lib/kubexm && echo garbage >/var/lib/kubexm/lease")
    with pytest.raises(HostError, match="cannot be read"):
        await leases.acquire(owner="a", run="r", ttl=60)


async def test_forget(sandbox: Any, leases: Leases) -> None:
    lease = await leases.acquire(owner="a", run="r", ttl=60)
    with pytest.raises(LeaseHeldError):
        await leases.forget(Lease(token=lease.token, run="other"))
    await leases.forget(lease)
    assert sandbox.sh("ls -A /var/lib/kubexm").split() == []
