"""Secrets at rest: AES-256-GCM under a key that is not in the database. Must not know what is sealed.

A key is a line of base64; the first one seals, all of them open, so that a key can be replaced at any point.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kubexm.errors import StoreError

__all__ = ["KEY_VARIABLE", "Keyring"]

KEY_VARIABLE = "KUBEXM_SERVER_KEY"
_SIZE = 32
_NONCE = 12
_FORMAT = b"\x01"


class Keyring:
    """The keys of a store. Never shown, never pickled."""

    __slots__ = ("_current", "_keys")

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {_id(key): AESGCM(key) for key in keys}
        if not self._keys:
            raise StoreError("there is no key for the store", hint="a key file has one key on a line of its own")
        self._current = next(iter(self._keys))

    def __repr__(self) -> str:
        return f"Keyring({len(self._keys)} keys)"

    def seal(self, content: bytes, place: str) -> bytes:
        """The content, readable only with this key and only at this place (the name it is kept under)."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._keys[self._current].encrypt(nonce, content, place.encode())
        return _FORMAT + self._current + nonce + sealed

    def open(self, sealed: bytes, place: str) -> bytes:
        """What was sealed at this place; StoreError if the key is another or it was tampered with."""
        body = sealed[len(_FORMAT) :]
        name, nonce, content = body[:8], body[8 : 8 + _NONCE], body[8 + _NONCE :]
        key = self._keys.get(name)
        if not sealed.startswith(_FORMAT) or key is None:
            raise StoreError(
                f"{place}: it was sealed with a key that is not here ({name.hex()})",
                hint="use the key file, or the environment, this store was made with",
            )
        try:
            return key.decrypt(nonce, content, place.encode())
        except InvalidTag:
            raise StoreError(f"{place}: it was damaged or tampered with", hint="put it there anew") from None

    def is_current(self, sealed: bytes) -> bool:
        """True if it was sealed with the key that seals now."""
        return sealed[len(_FORMAT) :][:8] == self._current

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> Keyring:
        """The keys of the environment if it has any, else those of the file, which is made if there is none."""
        if given := environ.get(KEY_VARIABLE, ""):
            return cls(_decode(word, f"${KEY_VARIABLE}") for word in given.replace(",", " ").split())
        if not path.exists():
            write_keys(path, [new_key()])
        return cls(read_keys(path))


def new_key() -> bytes:
    """A key nobody knows."""
    return secrets.token_bytes(_SIZE)


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file that nobody else can read."""
    try:
        found = path.stat()
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise StoreError(f"{path}: others can read this key", hint=f"chmod 600 {path}, and rotate the key")
        lines = path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the key cannot be read: {error}") from error
    return [_decode(line.strip(), str(path)) for line in lines if line.strip() and not line.startswith("#")]


def write_keys(path: Path, keys: Iterable[bytes]) -> None:
    """Writes the file whole or not at all, for this user alone."""
    text = "# Keys of a kubexm server's store; the first one seals. Keep a copy in a safe place.\n"
    text += "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path}: the key cannot be written: {error.strerror}") from error


def _decode(word: str, where: str) -> bytes:
    try:
        key = base64.b64decode(word, validate=True)
    except ValueError:
        key = b""
    if len(key) != _SIZE:
        raise StoreError(f"{where}: a key is 32 bytes in base64", hint="`openssl rand -base64 32` makes one")
    return key


def _id(key: bytes) -> bytes:
    return hashlib.sha256(b"kubexm key id" + key).digest()[:8]
