"""What a host is shown to let us in: keys, certificates, the agent, passwords. Must not know connections.

Each key is read and decrypted once, however many hosts it opens: a passphrase costs a tenth of a second of CPU.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from kubexm.connector.settings import ConnectionSettings
from kubexm.errors import AuthenticationError
from kubexm.redact import Secret

__all__ = ["Credentials", "Identity"]

_DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")
_Keys = list[asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate] | asyncssh.SSHKeyPair]


@dataclass(slots=True)
class Identity:
    """What there is to log in with, and its names for messages."""

    keys: _Keys = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class Credentials:
    """Keys and agents, shared by all connections of a pool."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, Secret | None], asyncio.Task[asyncssh.SSHKey]] = {}
        self._agents: dict[str, asyncio.Task[asyncssh.SSHAgentClient]] = {}

    async def close(self) -> None:
        """Lets go of the agents."""
        agents, self._agents = self._agents, {}
        for task in agents.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()

    async def identity(self, settings: ConnectionSettings) -> Identity:
        """Everything the settings offer; raises AuthenticationError if they name something that is not to be had."""
        identity = Identity()
        if settings.private_key is not None:
            key = await self._import(settings.private_key, settings.passphrase)
            identity.keys += self._with_certificate(key, settings.certificate_path, required=True)
            identity.names.append(f"the given private key ({key.get_fingerprint()})")
        if settings.private_key_path is not None:
            await self._add_file(identity, settings.private_key_path.expanduser(), settings)
        if settings.agent:
            await self._add_agent(identity, settings, required=True)
        if settings.password is not None:
            identity.names.append("the password")
        if not identity.keys and settings.password is None:
            await self._add_defaults(identity, settings)
        if not identity.keys and settings.password is None:
            raise AuthenticationError(
                f"there is nothing to log in with as {settings.user}: no key, no password, no agent",
                hint="set privateKeyPath, password or agent for this host in cluster.yaml",
            )
        return identity

    async def _add_file(self, identity: Identity, path: Path, settings: ConnectionSettings) -> None:
        key = await self._read(path, settings.passphrase)
        beside = path.with_name(path.name + "-cert.pub")
        if settings.certificate_path is not None:
            identity.keys += self._with_certificate(key, settings.certificate_path.expanduser(), required=True)
        else:
            identity.keys += self._with_certificate(key, beside, required=False)
        identity.names.append(f"the key {path} ({key.get_fingerprint()})")

    async def _add_agent(self, identity: Identity, settings: ConnectionSettings, *, required: bool) -> None:
        try:
            keys = await self._agent_keys(settings.agent_socket or os.environ.get("SSH_AUTH_SOCK", ""))
        except AuthenticationError:
            if required:
                raise
            return
        identity.keys += keys
        identity.names.append(f"the agent ({len(keys)} keys)")

    async def _agent_keys(self, socket: str) -> list[asyncssh.SSHKeyPair]:
        if not socket:
            raise AuthenticationError(
                "the SSH agent is not to be found: SSH_AUTH_SOCK is not set",
                hint='start one with `eval "$(ssh-agent)"` and add your key with `ssh-add`',
            )
        try:
            agent = await self._agent(socket)
            keys = list(await agent.get_keys())
        except (OSError, ValueError, asyncssh.Error) as error:
            self._agents.pop(socket, None)
            raise AuthenticationError(
                f"the SSH agent at {socket} does not answer: {error}",
                hint="start it again, or set SSH_AUTH_SOCK to where it listens",
            ) from None
        if not keys:
            raise AuthenticationError("the SSH agent holds no key", hint="add your key with `ssh-add`")
        return keys

    async def _add_defaults(self, identity: Identity, settings: ConnectionSettings) -> None:
        await self._add_agent(identity, settings, required=False)
        for path in _default_keys():
            try:
                await self._add_file(identity, path, settings)
            except AuthenticationError:
                continue  # nobody asked for this very key

    async def _agent(self, socket: str) -> asyncssh.SSHAgentClient:
        task = self._agents.get(socket)
        if task is None:
            task = self._agents[socket] = asyncio.get_running_loop().create_task(_connect_agent(socket))
        return await asyncio.shield(task)

    async def _read(self, path: Path, passphrase: Secret | None) -> asyncssh.SSHKey:
        return await self._once((str(path), passphrase), lambda: _import(_load(path), passphrase, str(path)))

    async def _import(self, key: Secret, passphrase: Secret | None) -> asyncssh.SSHKey:
        where = "given as privateKey"
        return await self._once((key.digest(b"kubexm"), passphrase), lambda: _import(key.reveal(), passphrase, where))

    async def _once(self, name: tuple[str, Secret | None], work: Callable[[], asyncssh.SSHKey]) -> asyncssh.SSHKey:
        task = self._keys.get(name)
        if task is None:
            task = self._keys[name] = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(task)
        except AuthenticationError:
            self._keys.pop(name, None)  # it may be put right meanwhile
            raise

    def _with_certificate(self, key: asyncssh.SSHKey, path: Path | None, *, required: bool) -> _Keys:
        if path is None or (not required and not path.is_file()):
            return [key]
        try:
            certificate = asyncssh.read_certificate(str(path))
        except (OSError, asyncssh.KeyImportError, ValueError) as error:
            raise AuthenticationError(
                f"the certificate {path} cannot be read: {error}", hint="it must be an OpenSSH user certificate"
            ) from None
        if certificate.key != key.convert_to_public():
            raise AuthenticationError(f"the certificate {path} belongs to another key", hint="sign this key instead")
        return [(key, certificate)]


def _default_keys() -> list[Path]:
    home = Path("~/.ssh").expanduser()
    return [home / name for name in _DEFAULTS if (home / name).is_file()]


def _load(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise AuthenticationError(
            f"the private key {path} cannot be read: {error.strerror}", hint="check privateKeyPath in cluster.yaml"
        ) from None
    except UnicodeDecodeError:
        raise _no_key(str(path)) from None


async def _connect_agent(socket: str) -> asyncssh.SSHAgentClient:
    return await asyncssh.connect_agent(socket)


def _import(text: str, passphrase: Secret | None, where: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(text, passphrase.reveal() if passphrase else None)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        if not isinstance(error, asyncssh.KeyEncryptionError) and "passphrase" not in str(error).lower():
            raise _no_key(where) from None
        what = "the passphrase does not fit" if passphrase else "it is encrypted, and no passphrase is given"
        raise AuthenticationError(
            f"the private key {where} cannot be opened: {what}",
            hint="set privateKeyPassphrase in cluster.yaml, or add the key to an agent",
        ) from None


def _no_key(where: str) -> AuthenticationError:
    return AuthenticationError(f"{where}: this is no private key", hint="OpenSSH, PEM and PKCS#8 keys can be read")
