"""What a failed login means, in words a user can act on. Must not know how the login was tried."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

import asyncssh

from kubexm.connector.settings import ConnectionSettings
from kubexm.errors import AuthenticationError, ConnectError, HostKeyError

__all__ = ["Attempt", "explain", "silent", "turned_away"]


@dataclass(slots=True)
class Attempt:
    """How far a login came."""

    settings: ConnectionSettings
    tried: list[str]
    """What it was tried with."""
    problem: HostKeyError | None = None
    """What is wrong with the host's key."""
    shown: asyncssh.SSHKey | None = None
    """The key the host showed."""
    authenticating: bool = False
    expired: bool = False


def turned_away(error: Exception) -> bool:
    """Whether sshd, or what stands before it, hung up before saying what it wants: it has enough callers for now."""
    if isinstance(error, asyncssh.ConnectionLost):
        return True
    return isinstance(error, ConnectionResetError | BrokenPipeError)


def silent(settings: ConnectionSettings) -> ConnectError:
    """The error for a host that does not answer."""
    return ConnectError(
        f"{settings} did not answer within {settings.timeout:g} s",
        hint="is the host up, and its port open to this machine? A slow one can be given a longer timeout",
    )


def explain(error: Exception, attempt: Attempt) -> ConnectError:
    """The error to raise for a login that failed so."""
    settings = attempt.settings
    where = f"{settings.address} port {settings.port}"
    if attempt.problem is not None:
        return attempt.problem
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(
            f"the host key of {settings.address} cannot be trusted: {error.reason}",
            hint="check the @cert-authority line in known_hosts and the names in the host's certificate",
        )
    if isinstance(error, asyncssh.ConnectionLost):
        when = "during" if attempt.authenticating else "before"
        return ConnectError(
            f"{where} hung up {when} the login",
            hint="sshd may be overrun (MaxStartups), or something between here and there closes connections",
        )
    if attempt.authenticating and isinstance(error, asyncssh.DisconnectError):
        return _not_let_in(error, attempt)
    if isinstance(error, asyncssh.ChannelOpenError):
        return ConnectError(
            f"the bastion cannot reach {where}: {error.reason}",
            hint="check the address as seen from the bastion, and AllowTcpForwarding in the bastion's sshd_config",
        )
    if isinstance(error, asyncssh.Error):
        return ConnectError(
            f"{where} and kubexm found no common ground: {error.reason}",
            hint="is this an SSH server, and a current one?",
        )
    return _unreachable(error, settings)


def _not_let_in(error: asyncssh.DisconnectError, attempt: Attempt) -> AuthenticationError:
    settings = attempt.settings
    if attempt.expired:
        return AuthenticationError(
            f"the password of {settings.user} on {settings.address} has expired", hint="log in by hand and change it"
        )
    hint = f"check that {settings.user} may log in there, and that the key is in its authorized_keys"
    if "Too many authentication failures" in (error.reason or ""):
        hint = "more keys were offered than sshd lets one try: name the right one with privateKeyPath"
    elif attempt.tried == ["the password"]:
        hint = "check the password, and that sshd allows PasswordAuthentication or keyboard-interactive"
    tried = " and ".join(attempt.tried)
    return AuthenticationError(f"{settings.address} did not let {settings.user} in with {tried}", hint=hint)


def _unreachable(error: Exception, settings: ConnectionSettings) -> ConnectError:
    where = f"{settings.address} port {settings.port}"
    if isinstance(error, socket.gaierror):
        return ConnectError(
            f"the name {settings.address} cannot be resolved: {error.strerror}",
            hint="check the address in cluster.yaml, and this machine's DNS",
        )
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(f"{where} refuses connections", hint="is sshd running there, on that port?")
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return ConnectError(f"there is no route to {where}", hint="check the address, the network and any bastion")
    if number == errno.ETIMEDOUT:
        return ConnectError(f"{where} does not answer", hint="is the host up, and its port open to this machine?")
    return ConnectError(f"{where} cannot be reached: {error}", hint="check the address and the network")
