"""Whether a host is who it claims to be: known_hosts, pins, and what to say if not. Must not know connections."""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import asyncssh

from kubexm.connector.settings import ConnectionSettings
from kubexm.errors import HostKeyError

__all__ = ["HostKeys", "KnownKey", "pinned_fingerprint"]

_GLOBAL = Path("/etc/ssh/ssh_known_hosts")
_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True)
class KnownKey:
    """An entry that speaks of a host, and where it stands."""

    marker: str
    key: asyncssh.SSHKey
    file: Path
    line: int

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    marker: str
    patterns: str
    data: str


class _Lines:
    """The lines of a file. Most name their hosts in full: those are found without a look at every line."""

    def __init__(self, lines: Iterable[_Line]) -> None:
        self._named: dict[str, list[_Line]] = {}
        self._others: list[_Line] = []
        for line in lines:
            if any(sign in line.patterns for sign in "|*?!"):
                self._others.append(line)
            else:
                for name in set(line.patterns.lower().split(",")):
                    self._named.setdefault(name, []).append(line)

    def of(self, name: str) -> list[_Line]:
        """Those that speak of this host, in the order of the file."""
        others = (line for line in self._others if _matches(line.patterns, name))
        return sorted((*self._named.get(name.lower(), ()), *others), key=lambda line: line.number)


class HostKeys:
    """The keys known of hosts. Files are read again when they have changed."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[tuple[int, int], _Lines]] = {}

    def of(self, settings: ConnectionSettings) -> list[KnownKey]:
        """Everything that is known of a host, its certificate authorities and revoked keys included."""
        return [entry for file in (known_hosts_file(settings), _GLOBAL) for entry in self._matching(file, settings)]

    def _matching(self, file: Path, settings: ConnectionSettings) -> Iterator[KnownKey]:
        lines = self._lines(file)
        found = lines.of(_name(settings))
        if settings.port != 22 and not any(line.marker != "revoked" for line in found):
            # Certificate authorities are often given for names without a port.
            found += [line for line in lines.of(settings.address) if line.marker]
        for line in found:
            try:
                key = asyncssh.import_public_key(line.data)
            except asyncssh.KeyImportError:
                continue  # a kind of key this version cannot read says nothing about the others
            yield KnownKey(line.marker, key, file, line.number)

    def _lines(self, file: Path) -> _Lines:
        try:
            stat = file.stat()
        except OSError:
            return _Lines(())
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._files.get(file)
        if known is None or known[0] != stamp:
            known = self._files[file] = (stamp, _Lines(_parse(file)))
        return known[1]

    def record(self, settings: ConnectionSettings, key: asyncssh.SSHKey) -> None:
        """Adds a new host's key, under a lock, unless somebody else has just done so."""
        file = known_hosts_file(settings)
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "r+b") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                if any(entry.key == key for entry in self.of(settings)):
                    return
                stream.seek(0, os.SEEK_END)
                start = b""
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                    start = b"" if stream.read(1) == b"\n" else b"\n"
                stream.write(start + f"{_name(settings)} ".encode() + key.export_public_key("openssh").strip() + b"\n")
        except OSError as error:
            raise HostKeyError(
                f"the host's new key cannot be recorded in {file}: {error.strerror}",
                hint="make the file writable, or pin the key with hostKey in cluster.yaml",
            ) from None

    @staticmethod
    def algorithms(known: list[KnownKey], skip: frozenset[str] = frozenset()) -> list[str]:
        """What to ask the host for: the kinds of key it is known by first, so that it does not show another one."""
        plain = [entry.key.get_algorithm() for entry in known if not entry.marker]
        kinds = list(dict.fromkeys([kind for kind in plain if kind in _TYPES] + list(_TYPES)))
        kinds = [kind for kind in kinds if kind not in skip]
        signatures = [signature for kind in kinds for signature in _SIGNATURES.get(kind, (kind,))]
        if any(entry.marker == "cert-authority" for entry in known):
            return [f"{signature}-cert-v01@openssh.com" for signature in signatures] + signatures
        return signatures


def known_hosts_file(settings: ConnectionSettings) -> Path:
    """Where this host's key is looked up and recorded."""
    return settings.known_hosts.expanduser() if settings.known_hosts else Path("~/.ssh/known_hosts").expanduser()


def pinned_fingerprint(settings: ConnectionSettings) -> str:
    """The fingerprint of the pinned key, as SHA256:… without padding; empty if none is pinned."""
    pin = settings.host_key
    if not pin or pin.startswith("SHA256:"):
        return pin.rstrip("=")
    try:
        blob = base64.b64decode(pin.split()[1])
    except (IndexError, binascii.Error):
        raise HostKeyError(
            f"hostKey of {settings.address} is not a public key: {pin}",
            hint="copy the fingerprint from `ssh-keygen -lf`, or the whole line of the host's .pub file",
        ) from None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def unknown(settings: ConnectionSettings, key: asyncssh.SSHKey) -> HostKeyError:
    """The error for a host nobody has vouched for."""
    fingerprint = key.get_fingerprint()
    return HostKeyError(
        f"the host key of {settings.address} is not known: {key.get_algorithm()} {fingerprint}",
        hint="compare it with what `ssh-keygen -lf` shows on the host, then run again with --accept-new-host-keys "
        f'to record it, or write hostKey: "{fingerprint}" into cluster.yaml',
    )


def changed(settings: ConnectionSettings, key: asyncssh.SSHKey, known: list[KnownKey]) -> HostKeyError:
    """The error for a host that shows another key than before."""
    before = ", ".join(f"{e.key.get_algorithm()} {e.key.get_fingerprint()} in {e.place}" for e in known)
    return HostKeyError(
        f"the host key of {settings.address} HAS CHANGED: it shows {key.get_algorithm()} {key.get_fingerprint()}, "
        f"known is {before}",
        hint="somebody may be listening in. If the host was installed anew, check its key there and remove the old: "
        f"ssh-keygen -f {known[0].file} -R '{_name(settings)}'",
    )


def not_pinned(settings: ConnectionSettings, seen: list[str]) -> HostKeyError:
    """The error for a host whose keys are all different from the pin."""
    return HostKeyError(
        f"the host key of {settings.address} is not the pinned one: it shows {', '.join(seen)}, "
        f"hostKey is {pinned_fingerprint(settings)}",
        hint="somebody may be listening in. If the host was installed anew, check its key there and correct hostKey",
    )


def _name(settings: ConnectionSettings) -> str:
    return settings.address if settings.port == 22 else f"[{settings.address}]:{settings.port}"


def _parse(file: Path) -> Iterator[_Line]:
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise HostKeyError(f"{file} cannot be read: {error.strerror}", hint="make it readable for you") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        marker = ""
        if words[0].startswith("@"):
            marker = words[0][1:]
            words = words[1].split(None, 1) if len(words) > 1 else []
        if len(words) == 2 and marker in ("", "cert-authority", "revoked"):
            yield _Line(number, marker, words[0], words[1])


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _matches_hashed(patterns, name)
    found = False
    for pattern in patterns.lower().split(","):
        negated = pattern.startswith("!")
        plain = pattern[1:] if negated else pattern
        # Brackets stand for themselves in known_hosts: [host]:port.
        if plain == name.lower() or fnmatchcase(name.lower(), plain.replace("[", "[[]")):
            if negated:
                return False
            found = True
    return found


def _matches_hashed(pattern: str, name: str) -> bool:
    try:
        _, _, salt, digest = pattern.split("|")
        expected = base64.b64decode(digest)
        return hmac.compare_digest(hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest(), expected)
    except (ValueError, binascii.Error):
        return False
