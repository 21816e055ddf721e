"""How to log in to one host. Values only: must not know where they were written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubexm.redact import Secret

__all__ = ["ConnectionSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Where a host is, who logs in, and by what right. With no key, password or agent: as ssh would do."""

    address: str
    port: int = 22
    user: str = "root"
    password: Secret | None = None
    """Also answers keyboard-interactive prompts, and sudo's if there is no `sudo_password`."""
    private_key: Secret | None = None
    """The key itself."""
    private_key_path: Path | None = None
    passphrase: Secret | None = None
    certificate_path: Path | None = None
    """An OpenSSH certificate for the key; `KEY-cert.pub` beside the key is found without."""
    agent: bool = False
    agent_socket: str = ""
    """Where the agent listens; empty: SSH_AUTH_SOCK says."""
    sudo_password: Secret | None = None
    bastions: tuple[ConnectionSettings, ...] = ()
    """Hosts to go through, the first one first. Those who go through the same ones share the connections to them."""
    host_key: str = ""
    """The only host key to accept: its SHA256:… fingerprint or the whole public key. Then known_hosts is not used."""
    known_hosts: Path | None = None
    """Where host keys are looked up and recorded; None: ~/.ssh/known_hosts."""
    accept_new_host_keys: bool = False
    """Record the key of a host that has none yet. A changed key is refused all the same."""
    timeout: float = 10.0
    """Seconds for connecting and logging in."""
    keepalive: float = 5.0
    """Seconds between signs of life; after three without an answer the connection counts as broken."""

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{host}" + (f":{self.port}" if self.port != 22 else "")
