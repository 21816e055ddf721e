"""All connections of a run: one per host, one per bastion however many go through it. Must not know what for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import asyncssh

from kubexm.connector.dial import Dialler
from kubexm.connector.local import LocalConnector
from kubexm.connector.settings import ConnectionSettings
from kubexm.connector.ssh import SSHConnector, hang_up
from kubexm.connector.transfer import Digests
from kubexm.connector.turns import Turns
from kubexm.errors import ConnectError
from kubexm.redact import Secret

__all__ = ["ConnectionPool"]

_SENDING = 1
"""Large files on their way, beside one for each host: all at once would all arrive last."""

_Chain = tuple[ConnectionSettings, ...]


class ConnectionPool:
    """Gives out the connector of each host, always the same one; closes them all."""

    def __init__(self, *, handshakes: int = 64, reconnect_for: float = 60.0) -> None:
        self._dialler = Dialler(handshakes=handshakes)
        self._reconnect_for = reconnect_for
        self._digests = Digests()
        self._sending = Turns(_SENDING)
        self._connectors: dict[str, SSHConnector | LocalConnector] = {}
        self._bastions: dict[_Chain, asyncio.Task[asyncssh.SSHClientConnection]] = {}

    def connector(self, host: str, settings: ConnectionSettings) -> SSHConnector:
        """The connector of a host over SSH; nothing is connected yet."""
        known = self._connectors.get(host)
        if known is None:
            known = self._connectors[host] = SSHConnector(
                host,
                settings,
                self._dial,
                reconnect_for=self._reconnect_for,
                digests=self._digests,
                sending=self._sending,
            )
            self._sending.widen()
        assert isinstance(known, SSHConnector), f"{host} is local"
        return known

    def local(
        self, host: str = "localhost", *, sudo: bool = True, sudo_password: Secret | None = None
    ) -> LocalConnector:
        """The connector of this machine; with `sudo=False` it never uses sudo."""
        known = self._connectors.get(host)
        if known is None:
            known = self._connectors[host] = LocalConnector(
                host, sudo=sudo, sudo_password=sudo_password, digests=self._digests
            )
        assert isinstance(known, LocalConnector), f"{host} is not local"
        return known

    async def close(self) -> None:
        """Ends all connections, the bastions' last; what runs on the hosts goes on until its deadline."""
        connectors, self._connectors = self._connectors, {}
        await asyncio.gather(*(connector.close() for connector in connectors.values()))
        bastions, self._bastions = self._bastions, {}
        for chain in sorted(bastions, key=len, reverse=True):
            task = bastions[chain]
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                await hang_up(task.result())
        await self._dialler.close()

    async def _dial(
        self, host: str, settings: ConnectionSettings, lost: Callable[[], None]
    ) -> asyncssh.SSHClientConnection:
        tunnel = await self._bastion(host, settings.bastions)
        return await self._dialler.dial(host, settings, tunnel, lost)

    async def _bastion(self, host: str, chain: _Chain) -> asyncssh.SSHClientConnection | None:
        """The connection to the last bastion of a chain, made once for all who share its beginning."""
        if not chain:
            return None
        chain = tuple(replace(settings, bastions=()) for settings in chain)
        task = self._bastions.get(chain)
        if task is None:
            task = self._bastions[chain] = asyncio.get_running_loop().create_task(self._through(chain))
        try:
            return await asyncio.shield(task)
        except ConnectError as error:
            self._forget(chain, task)
            raise error.__class__(f"bastion {error.message}", host=host, hint=error.hint) from None
        except asyncio.CancelledError:
            raise

    async def _through(self, chain: _Chain) -> asyncssh.SSHClientConnection:
        tunnel = await self._bastion(str(chain[-1]), chain[:-1])
        this = asyncio.current_task()
        return await self._dialler.dial(str(chain[-1]), chain[-1], tunnel, lambda: self._forget(chain, this))

    def _forget(self, chain: _Chain, task: object) -> None:
        if self._bastions.get(chain) is task:
            del self._bastions[chain]
