"""From the user's file to connection settings: secrets resolved, paths made absolute. Each secret is read once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from kubexm import config
from kubexm.apis.v1alpha1 import Credentials, Jump, LiteralSecret, SecretSource
from kubexm.apis.v1alpha1 import Host as HostEntry
from kubexm.connector import ConnectionSettings
from kubexm.redact import Redactor, Secret, is_maskable

__all__ = ["SettingsReader"]

_log = logging.getLogger("kubexm")


class _Login(TypedDict):
    user: str
    password: Secret | None
    private_key: Secret | None
    private_key_path: Path | None
    passphrase: Secret | None
    certificate_path: Path | None
    agent: bool


class SettingsReader:
    """Reads the settings of hosts; what it reveals is masked everywhere from then on."""

    def __init__(
        self,
        base_dir: Path,
        redactor: Redactor,
        *,
        ask: Callable[[str], str] | None = None,
        accept_new_host_keys: bool = False,
        names: frozenset[str] = frozenset(),
    ) -> None:
        """`names` are words that all output holds: a secret of the same text is not masked, which would reveal it."""
        self._names = names
        self._base_dir = base_dir
        self._redactor = redactor
        self._ask = ask
        self._accept = accept_new_host_keys
        self._known: dict[tuple[SecretSource, str], Secret] = {}

    def settings(self, host: HostEntry) -> ConnectionSettings:
        """How to log in to this host."""
        jumps = tuple(self._jump(jump, host) for jump in host.bastion)
        own = self._login(host.credentials, f"{host.credentials.user} on {host.name}")
        return ConnectionSettings(
            address=host.address,
            port=host.port,
            **own,
            sudo_password=self.sudo_password(host),
            bastions=jumps,
            host_key=host.host_key or "",
            known_hosts=self._known_hosts(host),
            accept_new_host_keys=self._accept,
            timeout=host.connection_timeout.total_seconds(),
        )

    def sudo_password(self, host: HostEntry) -> Secret | None:
        """What sudo asks for on this host."""
        return self._secret(host.sudo_password, f"sudo password of {host.credentials.user}")

    def _jump(self, jump: Jump, host: HostEntry) -> ConnectionSettings:
        return ConnectionSettings(
            address=jump.address,
            port=jump.port,
            **self._login(jump.credentials, f"{jump.credentials.user} on the bastion {jump.address}"),
            host_key=jump.host_key or "",
            known_hosts=self._known_hosts(host),
            accept_new_host_keys=self._accept,
            timeout=host.connection_timeout.total_seconds(),
        )

    def _known_hosts(self, host: HostEntry) -> Path | None:
        return config.local_path(host.known_hosts_file, self._base_dir) if host.known_hosts_file else None

    def _login(self, login: Credentials, who: str) -> _Login:
        key = login.private_key_path
        certificate = login.certificate_path
        return {
            "user": login.user,
            "password": self._secret(login.password, f"password of {who}"),
            "private_key": self._secret(login.private_key, f"private key of {who}"),
            "private_key_path": config.local_path(key, self._base_dir) if key else None,
            "passphrase": self._secret(login.private_key_passphrase, f"passphrase of the key of {who}"),
            "certificate_path": config.local_path(certificate, self._base_dir) if certificate else None,
            "agent": login.agent,
        }

    def _secret(self, source: SecretSource | None, what: str) -> Secret | None:
        if source is None:
            return None
        # One prompt serves everyone it is worded the same for; other sources are the same whoever asks.
        place = (source, what if str(source) == "prompt" else "")
        if place not in self._known:
            secret = self._known[place] = config.resolve(source, base_dir=self._base_dir, ask=self._ask, what=what)
            if secret.reveal().strip() not in self._names:
                self._redactor.add(secret)
            if not isinstance(source, LiteralSecret) and not is_maskable(secret, self._names):
                why = "it is too short or an ordinary word; choose a longer one"
                _log.warning("the %s cannot be masked in logs and output: %s", what, why)
        return self._known[place]
