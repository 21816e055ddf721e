"""One writer: a lease on the cluster's own control-plane and etcd hosts, so that two laptops and a server exclude each
other. Each of these hosts then refuses changes that carry an older token.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import socket
from collections.abc import Callable, Coroutine

from kubexm.errors import FencedError, KubexmError, LeaseHeldError
from kubexm.runner import Lease
from kubexm.runtime.context import Context
from kubexm.runtime.host import HostRuntime

__all__ = ["ClusterLease", "owner_name"]

TTL = 60
_PATIENCE = 30.0
"""Seconds that a command of a run which died may still take."""


def owner_name() -> str:
    """Who takes the lease: user, machine and process, for the one who finds it taken."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{os.getpid()}"


class ClusterLease:
    """Held from `acquire` to `release`, renewed in between. `on_lost` is called if somebody else takes it over."""

    def __init__(self, ctx: Context, run: str, on_lost: Callable[[KubexmError], None]) -> None:
        self._ctx = ctx
        self._run = run
        self._on_lost = on_lost
        self._held: dict[str, Lease] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Takes it on every host that keeps one; all or nothing. LeaseHeldError names who has it."""
        hosts = self._hosts()
        if not hosts:
            return
        floor = max((_token(host) for host in hosts), default=0)
        try:
            await self._take(hosts[0], floor)  # whoever gets the first host gets them all
            await _all(*(self._take(host, floor) for host in hosts[1:]))
            await self._outlive(hosts)
        except LeaseHeldError as error:
            await self.release()
            raise LeaseHeldError(
                f"{error.host}: {error.owner or 'another run'} is changing this cluster (run {error.run or '?'})",
                host=error.host,
                owner=error.owner,
                run=error.run,
                hint=f"wait for it to end; a lease nobody renews runs out after {TTL} s",
            ) from error
        except BaseException:
            await self.release()
            raise
        self._renewing = asyncio.create_task(self._renew())

    async def release(self, *, leave: bool = False) -> None:
        """Gives it back everywhere; with `leave`, hosts that belong to no cluster any more keep no trace of it."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        held, self._held = self._held, {}
        await asyncio.gather(*(self._give_back(name, lease, leave) for name, lease in held.items()))

    def _hosts(self) -> list[HostRuntime]:
        keepers = [host.name for host in self._ctx.hosts if host.roles & {"etcd", "controlPlane"}]
        return [self._ctx.host_runtimes[name] for name in sorted(keepers) if name in self._ctx.host_runtimes]

    async def _take(self, host: HostRuntime, floor: int) -> None:
        lease = await host.lease.acquire(owner=owner_name(), run=self._run, ttl=TTL, token_floor=floor)
        self._held[host.name] = lease
        host.connector.fence(host.lease.path, lease.token)

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
        host.connector.fence(host.lease.path, None)
        with contextlib.suppress(KubexmError):  # a host that is gone keeps the lease until it runs out
            if leave:
                await host.lease.leave(lease)
                await host.connector.forget("")  # the receipt of the last change goes too
            else:
                await host.lease.release(lease)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(TTL / 3)
            for outcome in await asyncio.gather(
                *(self._renew_on(name) for name in list(self._held)), return_exceptions=True
            ):
                if isinstance(outcome, FencedError):
                    self._on_lost(outcome)
                    return
                if isinstance(outcome, KubexmError):
                    self._ctx.logger.warning("the lease could not be renewed: %s", outcome.message)
                elif isinstance(outcome, BaseException):
                    raise outcome

    async def _renew_on(self, name: str) -> None:
        self._held[name] = await self._ctx.host_runtimes[name].lease.renew(self._held[name], ttl=TTL)


async def _all(*takes: Coroutine[None, None, None]) -> None:
    """Waits for all of them, then raises the first error there was."""
    for outcome in await asyncio.gather(*takes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _token(host: HostRuntime) -> int:
    return host.facts.lease.token if host.facts.lease is not None else 0
