"""The lease on one host: who may change the cluster now. Must not know how many hosts make up a cluster's lease.

Comparing and writing are one step under flock(1), by the host's own clock. The token only ever grows; the connector's
fence compares it with every changing command, so that a run which lost its lease can change nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from kubexm.connector.base import CommandResult, shell
from kubexm.errors import FencedError, HostError, LeaseHeldError
from kubexm.runner.base import ABSENT, Operations, library

__all__ = ["LEASE_NAME", "Lease", "Leases"]

LEASE_NAME = "lease"
_HELD, _LOST, _UNREADABLE, _LOCKED = 45, 46, 47, 48
_TIMEOUT = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as the host has it; `expiry` and `now` are by the host's clock. Without an owner nobody holds it."""

    token: int
    owner: str = ""
    run: str = ""
    expiry: int = 0
    now: int = 0

    @property
    def held(self) -> bool:
        """True if somebody holds it and it has not run out."""
        return bool(self.owner) and self.expiry > self.now

    @property
    def remaining(self) -> int:
        """Seconds until it runs out."""
        return max(self.expiry - self.now, 0) if self.owner else 0


@dataclass(frozen=True, slots=True)
class Leases(Operations):
    """The lease file of the host."""

    @property
    def path(self) -> PurePosixPath:
        """Where the lease is; the connector's fence reads it."""
        return self.state / LEASE_NAME

    async def read(self) -> Lease | None:
        """The lease, or None if there never was one."""
        p = shell(self.path)
        script = f"[ -e {p} ] || exit {ABSENT}\n{library('lease')}kx_look {p}; kx_tell"
        result = await self._read(script, "read the lease")
        return None if result.exit_code == ABSENT else self._lease(result)

    async def acquire(
        self, *, owner: str, run: str, ttl: int, token_floor: int = 0, takeover_same_run: bool = True
    ) -> Lease:
        """Takes the lease if it is free, has run out, or is this run's own; LeaseHeldError otherwise.

        The new token is one more than the old one, and at least `token_floor`.
        """
        words = (self.path, _word(owner), _word(run), ttl, token_floor, "yes" if takeover_same_run else "no")
        return self._lease(await self._do("kx_acquire " + shell(*words), "take the lease"))

    async def renew(self, lease: Lease, *, ttl: int) -> Lease:
        """Holds it for another `ttl` seconds; FencedError if somebody else took it."""
        call = "kx_renew " + shell(self.path, lease.token, _word(lease.run), ttl)
        return self._lease(await self._do(call, "renew the lease"))

    async def release(self, lease: Lease) -> bool:
        """Gives it back, the token stays; False if somebody else holds it."""
        result = await self._do("kx_release " + shell(self.path, lease.token, _word(lease.run)), "release the lease")
        return result.exit_code != _LOST and bool(self._lease(result))

    async def leave(self, lease: Lease) -> bool:
        """Gives it back; on a host that belongs to no cluster any more, all trace of it goes. False if not ours."""
        result = await self._do("kx_leave " + shell(self.path, lease.token, _word(lease.run)), "leave the lease")
        return result.exit_code != _LOST and bool(self._lease(result))

    async def forget(self, lease: Lease) -> None:
        """Removes all trace of it, for a host that leaves its cluster."""
        self._lease(await self._do("kx_forget " + shell(self.path, lease.token, _word(lease.run)), "drop the lease"))

    async def _do(self, call: str, display: str) -> CommandResult:
        return await self._change(library("lease") + call, display, within=_TIMEOUT)

    def _lease(self, result: CommandResult) -> Lease:
        host = result.host
        if result.exit_code == _UNREADABLE:
            raise HostError(
                f"the lease at {self.path} cannot be read",
                host=host,
                hint=f"Its disk may have been full. If no kubexm is at work on this cluster, remove {self.path} there.",
            )
        if result.exit_code == _LOCKED:
            raise HostError(
                f"the lock {self.path}.lock could not be had in 20 s",
                host=host,
                hint="Another kubexm hangs while it holds it: `fuser` or `lslocks` on the host names the process.",
            )
        if result.exit_code not in (0, _HELD, _LOST):
            raise self._error(result)
        lease = _parse(result.text)
        if result.exit_code == _HELD:
            raise LeaseHeldError(
                f"{lease.owner} holds this cluster's lease (run {lease.run}) for another {lease.remaining} s",
                host=host,
                owner=lease.owner,
                run=lease.run,
                hint="Wait until it is done; if it is dead, its lease runs out. `kubexm runs list` shows runs.",
            )
        if result.exit_code == _LOST:
            who = f"{lease.owner} (run {lease.run})" if lease.owner else "somebody who has released it since"
            raise FencedError(
                f"the lease was taken over by {who}",
                host=host,
                hint="Let that run finish, then run again or resume; nothing more was changed by this one.",
            )
        return lease


def _parse(text: str) -> Lease:
    token, owner, run, expiry, now = text.rsplit("\n", maxsplit=1)[-1].split(" ")
    return Lease(
        token=int(token),
        owner="" if owner == "-" else unquote(owner),
        run="" if run == "-" else unquote(run),
        expiry=int(expiry),
        now=int(now),
    )


def _word(text: str) -> str:
    if not text:
        raise ValueError("a lease needs an owner and a run")
    return "%2D" if text == "-" else quote(text, safe="")
