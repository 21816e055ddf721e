"""One writer: a lease on the cluster's own control-plane and etcd hosts, so that two laptops and a server exclude each
other. Every host of the run then refuses changes that carry an older token. A run that cannot renew its lease changes
nothing more once it has expired, since by then another may have taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import socket
import time
from collections.abc import Callable, Coroutine

from kubexm.errors import FencedError, KubexmError, LeaseHeldError
from kubexm.runner import Lease
from kubexm.runtime.context import Context
from kubexm.runtime.host import HostRuntime

__all__ = ["ClusterLease", "keepers", "owner_name"]

TTL = 60
_RETRY = 3.0
"""Seconds between attempts to renew it where the last one failed."""
_PATIENCE = 30.0
"""Seconds that a command of a run which died may still take."""


def _now() -> float:
    """Seconds by a clock that nobody sets and that goes on while this machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def owner_name() -> str:
    """Who takes the lease: user, machine and process, for the one who finds it taken."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{os.getpid()}"


class ClusterLease:
    """Held from `acquire` to `release`, renewed in between. `on_lost` is called if it expires or is taken over."""

    def __init__(self, ctx: Context, run: str, on_lost: Callable[[KubexmError], None]) -> None:
        self._ctx = ctx
        self._run = run
        self._on_lost = on_lost
        self._held: dict[str, Lease] = {}
        self._until: dict[str, float] = {}
        """When it expires on each host, by our clock: never later than by that of the host."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = False
        self.followed = False
        """Another run held it when facts were gathered, or since: what they say may have changed."""

    async def check(self) -> None:
        """Raises LeaseHeldError if another run holds it. Asks only hosts whose facts say that somebody does."""
        for host in self._keepers():
            if host.facts.lease is not None and host.facts.lease.owner:
                lease = await host.lease.read()
                if lease is not None and lease.held and lease.run != self._run:
                    raise _taken(host.name, lease.owner, lease.run)

    async def acquire(self) -> None:
        """Takes it on every host that keeps one; all or nothing. LeaseHeldError names who has it."""
        keepers = self._keepers()
        if not keepers:
            return
        floor = 1 + max(_token(host) for host in self._hosts())
        try:
            await self._take(keepers[0], floor)  # whoever gets the first host gets them all
            await _all(*(self._take(host, self._token) for host in keepers[1:]))
            # Workers see one token only: hosts that fell behind catch up.
            await _all(*(self._take(host, self._token) for host in keepers if self._behind(host)))
            leases = [host.facts.lease for host in keepers if host.facts.lease is not None]
            self.followed = self._token != floor or any(lease.owner for lease in leases)
            for host in self._hosts():
                host.connector.fence(host.lease.path if host.name in self._held else None, self._token, self.holds)
            await self._outlive(keepers)
        except LeaseHeldError as error:
            await self.release()
            raise _taken(error.host, error.owner, error.run) from error
        except BaseException:
            await self.release()
            raise
        for work in (self._watch(), *(self._renew(name) for name in self._held)):
            self._tasks.add(asyncio.create_task(work))

    def holds(self) -> bool:
        """True while most of the hosts that keep the lease keep it for us: nobody else can have it then."""
        return _now() < self._expiry()

    async def release(self, *, leave: bool = False) -> None:
        """Gives it back everywhere; with `leave`, hosts that belong to no cluster any more keep no trace of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for host in self._hosts():
            host.connector.fence(None, None)
        held, self._held = self._held, {}
        await asyncio.gather(*(self._give_back(name, lease, leave) for name, lease in held.items()))

    def _hosts(self) -> list[HostRuntime]:
        """All hosts of the cluster that were reached; the control machine is none of them."""
        return [self._ctx.host_runtimes[host.name] for host in self._ctx.hosts if host.name in self._ctx.host_runtimes]

    def _keepers(self) -> list[HostRuntime]:
        return keepers(self._ctx)

    @property
    def token(self) -> int:
        """The fencing token of this run; 0 before it holds a lease."""
        return max((lease.token for lease in self._held.values()), default=0)

    @property
    def _token(self) -> int:
        return max(lease.token for lease in self._held.values())

    def _behind(self, host: HostRuntime) -> bool:
        return self._held[host.name].token < self._token

    def _expiry(self) -> float:
        """When fewer than most hosts keep it for us."""
        return sorted(self._until.values(), reverse=True)[len(self._until) // 2]

    async def _take(self, host: HostRuntime, floor: int) -> None:
        sent = _now()
        self._held[host.name] = await host.lease.acquire(owner=owner_name(), run=self._run, ttl=TTL, token_floor=floor)
        self._until[host.name] = sent + TTL

    async def _outlive(self, keepers: list[HostRuntime]) -> None:
        """What a run that never gave its lease back left running on hosts is waited for, and ended if it takes long.

        Its token is refused by now, but not to what had begun before.
        """
        leases = [lease for host in keepers if (lease := host.facts.lease) is not None and lease.owner]
        dead = {lease.run for lease in leases} - {"", self._run}
        hosts = self._ctx.host_runtimes.values() if dead else ()
        await asyncio.gather(*(self._settle(host, run) for host in hosts for run in sorted(dead)))

    async def _settle(self, host: HostRuntime, run: str) -> None:
        try:
            await host.connector.settle(f"{run}.", wait=_PATIENCE)
        except KubexmError as error:  # a host that is gone: whether it may be is not for the lease to say
            self._ctx.logger.warning("%s: what run %s left is not known: %s", host.name, run, error.message)

    async def _give_back(self, name: str, lease: Lease, leave: bool) -> None:
        host = self._ctx.host_runtimes[name]
        with contextlib.suppress(KubexmError):  # a host that is gone keeps the lease until it runs out
            if leave:
                await host.lease.leave(lease)
                await host.connector.forget("")  # the receipt of the last change goes too
            else:
                await host.lease.release(lease)

    async def _renew(self, name: str) -> None:
        """Renews it on one host: one that does not answer holds up no other."""
        wait = TTL / 3
        while True:
            await asyncio.sleep(wait)
            sent = _now()
            try:
                self._held[name] = await self._ctx.host_runtimes[name].lease.renew(self._held[name], ttl=TTL)
            except FencedError as error:
                self._lose(error)
                return
            except KubexmError as error:
                wait = min(_RETRY, TTL / 3)
                self._ctx.logger.warning("%s: the lease could not be renewed: %s", name, error.message)
            else:
                wait = TTL / 3
                self._until[name] = sent + TTL

    async def _watch(self) -> None:
        """Waits for it to expire."""
        while self.holds():  # noqa: ASYNC110 - each renewal moves it
            await asyncio.sleep(self._expiry() - _now())
        silent = sorted(name for name, until in self._until.items() if until <= _now())
        self._lose(
            FencedError(
                f"the lease expired: it could not be renewed on {', '.join(silent)} for {TTL} s",
                host=silent[0],
                hint="check the network to these hosts, then resume the run",
            )
        )

    def _lose(self, error: KubexmError) -> None:
        """Tells of it, once."""
        if not self._lost:
            self._lost = True
            self._on_lost(error)


def keepers(ctx: Context) -> list[HostRuntime]:
    """The hosts that keep the lease and the intent of a cluster: etcd members and control planes that were reached."""
    names = {host.name for host in ctx.hosts if host.roles & {"etcd", "controlPlane"}}
    return [ctx.host_runtimes[name] for name in sorted(names) if name in ctx.host_runtimes]


async def _all(*takes: Coroutine[None, None, None]) -> None:
    """Waits for all of them, then raises the first error there was."""
    for outcome in await asyncio.gather(*takes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _taken(host: str, owner: str, run: str) -> LeaseHeldError:
    return LeaseHeldError(
        f"{host}: {owner or 'another run'} is changing this cluster (run {run or '?'})",
        host=host,
        owner=owner,
        run=run,
        hint=f"wait for it to end; a lease nobody renews runs out after {TTL} s",
    )


def _token(host: HostRuntime) -> int:
    return host.facts.lease.token if host.facts.lease is not None else 0
