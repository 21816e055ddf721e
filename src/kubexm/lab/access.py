"""Keys and passwords of a lab, and the ssh command line that uses them. Must not know how hosts are made."""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from kubexm.lab.commands import run
from kubexm.lab.state import write_atomically

__all__ = ["Access"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The credentials of one lab, as files in its folder that only its owner can read."""

    folder: Path

    @property
    def private_key(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def sudo_password_file(self) -> Path:
        """The file that holds the password ops gives to sudo."""
        return self.folder / "sudo-password"

    def make(self, comment: str) -> None:
        """Make the key pair and the password; what is there is kept."""
        _make_key(self.private_key, comment)
        if not self.sudo_password_file.exists():
            write_atomically(self.sudo_password_file, secrets.token_urlsafe(15) + "\n")

    def public_key(self) -> str:
        return self.private_key.with_suffix(".pub").read_text(encoding="utf-8")

    def sudo_password(self) -> str:
        return self.sudo_password_file.read_text(encoding="utf-8").strip()

    def host_key(self, host: str) -> tuple[str, str]:
        """The private and the public key a host proves itself with; made when first asked for."""
        folder = self.folder / "host-keys"
        folder.mkdir(mode=0o700, exist_ok=True)
        key = folder / host
        _make_key(key, host)
        return key.read_text(encoding="utf-8"), key.with_suffix(".pub").read_text(encoding="utf-8")

    def write_known_hosts(self, addresses: dict[str, IPv4Address]) -> None:
        """Record the key of each host, by address and by name."""
        lines = []
        for name, address in addresses.items():
            kind, key, *_ = self.host_key(name)[1].split()
            lines.append(f"{address},{name} {kind} {key}\n")
        write_atomically(self.known_hosts, "".join(lines))

    def ssh_command(self, user: str, address: IPv4Address, command: tuple[str, ...] = ()) -> list[str]:
        """OpenSSH's ssh with this lab's key and host keys and nobody else's.

        One word is a line for the host's shell, as with ssh itself; several are a program and its exact arguments.
        """
        options = {
            "IdentityFile": self.private_key,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "PreferredAuthentications": "publickey",
            "ConnectTimeout": "10",
            "LogLevel": "ERROR",
        }
        words = ["ssh", "-F", "/dev/null"]
        for name, value in options.items():
            words += ["-o", f"{name}={_ssh_value(value)}" if isinstance(value, Path) else f"{name}={value}"]
        words += ["-l", user, str(address)]
        if command:
            words += ["--", command[0] if len(command) == 1 else shlex.join(command)]
        return words


def _make_key(path: Path, comment: str) -> None:
    public = path.with_suffix(".pub")
    if path.exists() and public.exists():
        return
    path.unlink(missing_ok=True)  # half of a pair is what a killed run left
    public.unlink(missing_ok=True)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def _ssh_value(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'
