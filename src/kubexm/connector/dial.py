"""One SSH login: the handshake, who we prove to be, and what every refusal means. Must not know what runs over it."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache

import asyncssh
from asyncssh.kex import get_kex_algs

from kubexm.connector.credentials import Credentials, Identity
from kubexm.connector.hostkeys import HostKeys, KnownKey, changed, not_pinned, pinned_fingerprint, unknown
from kubexm.connector.listener import identify
from kubexm.connector.refusals import Attempt, explain, silent, turned_away
from kubexm.connector.settings import ConnectionSettings
from kubexm.errors import ConnectError, HostError

__all__ = ["Dialler"]

_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
_EXCHANGES = (
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)
logging.getLogger("asyncssh").setLevel(logging.WARNING)  # it tells of every packet otherwise

_BUSY_FOR = 60.0
"""How long sshd may turn us away (MaxStartups) before that is an error."""
_DROPS = 2
"""How often the connection may break where that means something (in the middle of the login, or when only other kinds
of host key were asked for): once that may be the network."""


@cache
def _exchanges() -> list[str]:
    there = {name.decode() for name in get_kex_algs()}
    return [name for name in _EXCHANGES if name in there]


class _Client(asyncssh.SSHClient):
    """Answers what asyncssh asks during one handshake, and remembers how far it came."""

    def __init__(
        self, settings: ConnectionSettings, identity: Identity, known: list[KnownKey], lost: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._pin = pinned_fingerprint(settings)
        self._known = known
        self._lost = lost
        self.attempt = Attempt(settings, identity.names)
        self._password_given = False
        self._password_refused = False
        self._answered = False
        self.established = False
        self.new_key: asyncssh.SSHKey | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.established:
            self._lost()

    def begin_auth(self, username: str) -> None:
        self.attempt.authenticating = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.attempt.shown = key
        if self._pin:
            return key.get_fingerprint() == self._pin
        plain = [entry for entry in self._known if not entry.marker]
        if any(entry.marker == "revoked" and entry.key == key for entry in self._known):
            self.attempt.problem = changed(self._settings, key, [e for e in self._known if e.key == key])
        elif any(entry.key == key for entry in plain):
            return True
        elif plain:
            self.attempt.problem = changed(self._settings, key, plain)
        elif self._settings.accept_new_host_keys:
            self.new_key = key
            return True
        else:
            self.attempt.problem = unknown(self._settings, key)
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        return any(entry.marker == "cert-authority" and entry.key == key for entry in self._known)

    def password_auth_requested(self) -> str | None:
        if self._settings.password is None:
            return None
        if self._password_given:
            # Asked again, so the host takes passwords, and not this one: no use in trying it by other means.
            self._password_refused = True
            return None
        self._password_given = True
        return self._settings.password.reveal()

    def password_change_requested(self, prompt: str, lang: str) -> tuple[str, str]:
        self.attempt.expired = True
        raise asyncssh.PermissionDenied("the password has expired")

    def kbdint_auth_requested(self) -> str | None:
        return None if self._settings.password is None or self._password_refused or self._answered else ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if not prompts:
            return []
        if len(prompts) > 1 or prompts[0][1]:
            return None  # more than a password is asked for, a code perhaps
        if self._settings.password is None or self._answered:
            return None
        self._answered = True
        return [self._settings.password.reveal()]


class Dialler:
    """Logs in to hosts. Keeps what is worth sharing: keys, known hosts, and how many handshakes run at once."""

    def __init__(self, *, handshakes: int = 64) -> None:
        self._credentials = Credentials()
        self._host_keys = HostKeys()
        self._handshakes = asyncio.Semaphore(handshakes)

    async def close(self) -> None:
        """Lets go of agents."""
        await self._credentials.close()

    async def dial(
        self,
        host: str,
        settings: ConnectionSettings,
        tunnel: asyncssh.SSHClientConnection | None,
        lost: Callable[[], None],
    ) -> asyncssh.SSHClientConnection:
        """A connection that is logged in; raises ConnectError, naming `host`."""
        try:
            identity = await self._credentials.identity(settings)
            return await self._patiently(settings, identity, tunnel, lost)
        except HostError as error:
            error.host = error.host or host
            raise

    async def _patiently(
        self,
        settings: ConnectionSettings,
        identity: Identity,
        tunnel: asyncssh.SSHClientConnection | None,
        lost: Callable[[], None],
    ) -> asyncssh.SSHClientConnection:
        started = time.monotonic()
        deadline = started + max(_BUSY_FOR, settings.timeout)
        wait = 0.1
        pin = pinned_fingerprint(settings)
        wrong: dict[str, str] = {}
        dropped = 0
        while True:
            known = [] if pin else self._host_keys.of(settings)
            client = _Client(settings, identity, known, lost)
            attempt = client.attempt
            try:
                conn = await self._once(client, settings, identity, known, tunnel, frozenset(wrong))
            except TimeoutError:
                await self._must_be_ssh(attempt, tunnel, patient=True)
                raise silent(settings) from None
            except (OSError, asyncssh.Error) as error:
                shown = attempt.shown
                if pin and shown is not None and shown.get_fingerprint() != pin:
                    # The host may have the pinned key too, of another kind: ask for those one by one.
                    wrong[shown.get_algorithm()] = shown.get_fingerprint()
                    continue
                busy = attempt.problem is None and turned_away(error)
                # sshd hangs up on a caller who wants no kind of key it has. Whether its reason or the reset comes
                # first is a race, so a reset is taken for that answer only when it comes again and again.
                dropped += attempt.authenticating or bool(wrong)
                if wrong and shown is None and (isinstance(error, asyncssh.DisconnectError) or dropped > _DROPS):
                    raise not_pinned(settings, list(wrong.values())) from None
                if busy or isinstance(error, asyncssh.ProtocolError):
                    spent = time.monotonic() + wait > started + settings.timeout
                    await self._must_be_ssh(attempt, tunnel, patient=not spent)
                if not busy or dropped > _DROPS or time.monotonic() + wait > deadline:
                    raise explain(error, attempt) from None
            else:
                if not client.established:
                    raise ConnectError(f"{settings} hung up right after the login", hint="look at sshd's log there")
                if client.new_key is not None:
                    await asyncio.to_thread(self._host_keys.record, settings, client.new_key)
                return conn
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(wait * 1.7, 5.0)

    async def _must_be_ssh(
        self, attempt: Attempt, tunnel: asyncssh.SSHClientConnection | None, *, patient: bool
    ) -> None:
        """Raises if something other than an SSH server answers; one that sends nothing only once patience is over."""
        if attempt.shown is not None or attempt.authenticating:
            return
        listener = await identify(attempt.settings, tunnel)
        if listener is not None and not listener.ssh and (listener.sent or not patient):
            raise listener.problem(attempt.settings)

    async def _once(
        self,
        client: _Client,
        settings: ConnectionSettings,
        identity: Identity,
        known: list[KnownKey],
        tunnel: asyncssh.SSHClientConnection | None,
        skip: frozenset[str],
    ) -> asyncssh.SSHClientConnection:
        """One attempt. Hosts that do not even answer must not take the places of those that do."""
        sock = None
        try:
            if tunnel is None:
                async with asyncio.timeout(settings.timeout):
                    sock = await _reach(settings.address, settings.port)
            async with self._handshakes, asyncio.timeout(settings.timeout):
                conn = await self._handshake(client, settings, identity, known, tunnel or sock, skip)
                client.established = not conn.is_closed()
                sock = None
                return conn
        finally:
            if sock is not None:
                sock.close()

    async def _handshake(
        self,
        client: _Client,
        settings: ConnectionSettings,
        identity: Identity,
        known: list[KnownKey],
        way: asyncssh.SSHClientConnection | socket.socket | None,
        skip: frozenset[str],
    ) -> asyncssh.SSHClientConnection:
        def trusted(host: str, addr: str, port: int | None) -> tuple[list[asyncssh.SSHKey], ...]:
            authorities = [entry.key for entry in known if entry.marker == "cert-authority"]
            revoked = [entry.key for entry in known if entry.marker == "revoked"]
            return [], authorities, revoked

        return await asyncssh.connect(
            settings.address,
            settings.port,
            tunnel=way if isinstance(way, asyncssh.SSHClientConnection) else (),
            sock=way if isinstance(way, socket.socket) else None,
            config=None,
            client_factory=lambda: client,
            username=settings.user,
            client_keys=identity.keys or None,
            agent_path=None,
            known_hosts=trusted,
            server_host_key_algs=HostKeys.algorithms(known, skip),
            preferred_auth=["publickey", "password", "keyboard-interactive"],
            x509_trusted_certs=None,
            gss_host=None,
            kex_algs=_exchanges(),
            encryption_algs=_CIPHERS,
            compression_algs=None,
            keepalive_interval=settings.keepalive,
            keepalive_count_max=3,
            login_timeout=0,
        )


async def _reach(address: str, port: int) -> socket.socket:
    """A TCP connection to the first of the host's addresses that takes one."""
    loop = asyncio.get_running_loop()
    try:
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=numeric)  # asks nobody
    except socket.gaierror:
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    problem: OSError = OSError(f"{address} has no address")
    for family, kind, protocol, _, where in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, where)
        except OSError as error:
            problem = error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem
