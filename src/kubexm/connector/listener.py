"""What listens on a port where no SSH handshake took place. Must not know how logins are tried."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import asyncssh

from kubexm.connector.settings import ConnectionSettings
from kubexm.errors import ConnectError

__all__ = ["Listener", "identify"]

_MOST = 512
_WAIT = 2.0
_BUSY = (b"Exceeded MaxStartups", b"Not allowed at this time")
"""What sshd sends instead of its version when it has too many callers, or penalises this one."""

_OTHERS = {"an HTTP server": (b"HTTP/", b"<html", b"<HTML", b"<!DOCTYPE"), "a TLS server": (b"\x15\x03",)}


@dataclass(frozen=True, slots=True)
class Listener:
    """What a port sends to somebody who says hello as an SSH client."""

    sent: bytes

    @property
    def ssh(self) -> bool:
        """True if an SSH server listens there, even if it is busy."""
        return any(line.startswith(b"SSH-") for line in self.sent.splitlines()) or self.busy

    @property
    def busy(self) -> bool:
        """True if the SSH server turned this caller away."""
        return any(text in self.sent for text in _BUSY)

    def problem(self, settings: ConnectionSettings) -> ConnectError:
        """The error for a port that is not, or not yet, an SSH server's."""
        where = f"{settings.address} port {settings.port}"
        if not self.sent:
            return ConnectError(
                f"{where} accepts connections and closes them without sending anything",
                hint="check that sshd runs there and accepts connections from this machine (MaxStartups, hosts.deny); "
                "a load balancer without a backend and some firewalls behave like this, too",
            )
        line = next((line for line in self.sent.decode(errors="replace").splitlines() if line.strip()), "")
        shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line.strip())
        what = next((name for name, signs in _OTHERS.items() if any(sign in self.sent for sign in signs)), "")
        return ConnectError(
            f"{where} is not an SSH server: it answers {f'as {what}: ' if what else ''}`{shown[:60]}`",
            hint="check the address and port of the host in cluster.yaml",
        )


async def identify(settings: ConnectionSettings, tunnel: asyncssh.SSHClientConnection | None) -> Listener | None:
    """Connects once more and reads what comes first; None if nothing came in time, or there is no connection."""
    try:
        async with asyncio.timeout(min(_WAIT, settings.timeout)):
            return Listener(await _first_bytes(settings, tunnel))
    except (OSError, TimeoutError, asyncssh.Error):
        return None


async def _first_bytes(settings: ConnectionSettings, tunnel: asyncssh.SSHClientConnection | None) -> bytes:
    if tunnel is not None:
        through, back = await tunnel.open_connection(settings.address, settings.port)
        try:
            back.write(b"SSH-2.0-kubexm\r\n")
            first: bytes = await through.read(_MOST)
            return first
        finally:
            back.close()
    reader, writer = await asyncio.open_connection(settings.address, settings.port)
    try:
        writer.write(b"SSH-2.0-kubexm\r\n")
        return await reader.read(_MOST)
    except ConnectionError:
        return b""
    finally:
        writer.close()
