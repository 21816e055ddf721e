"""Signs a bundle's manifest with ed25519, and checks such a signature. The manifest covers everything else by sha256.

Keys are PEM files as openssl reads them; the signature is over the very bytes of manifest.json.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kubexm.assets.disk import replacing
from kubexm.assets.oci import canonical_json
from kubexm.errors import AssetError

__all__ = ["PrivateKey", "PublicKey", "Signature", "keygen"]

_ALGORITHM = "ed25519"
_MAX_FILE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A detached signature and the key it was made with."""

    key_id: str
    value: bytes

    def to_json(self) -> bytes:
        """The content of manifest.json.sig."""
        document = {
            "algorithm": _ALGORITHM,
            "keyId": self.key_id,
            "signature": base64.b64encode(self.value).decode(),
        }
        return canonical_json(document) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, *, where: str) -> Signature:
        """The signature this file holds; AssetError if it holds none."""
        try:
            document = json.loads(data[:_MAX_FILE])
            if document["algorithm"] != _ALGORITHM:
                raise AssetError(f"{where} is made with {document['algorithm']!r}; kubexm knows {_ALGORITHM}")
            value = base64.b64decode(document["signature"], validate=True)
            found = cls(key_id=str(document["keyId"]), value=value)
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise AssetError(f"{where} is not a signature: it is damaged or was edited") from error
        if found.to_json() != data:
            raise AssetError(f"{where} is not a signature as kubexm writes it: it is damaged or was edited")
        return found


class PublicKey:
    """What a signature is checked with."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """The public key in a PEM file."""
        data = _read(path, "public key")
        if b"PRIVATE KEY" in data:
            raise AssetError(f"{path} is a private key", hint="Check signatures with the public one, the .pub file.")
        try:
            key = serialization.load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise AssetError(f"{path} is not a public key in PEM form") from error
        if not isinstance(key, Ed25519PublicKey):
            raise AssetError(f"{path} is a key of another kind; ed25519 is expected")
        return cls(key)

    @property
    def key_id(self) -> str:
        """A short name for the key: the start of its sha256."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()[:16]

    def to_pem(self) -> bytes:
        """As a PEM file."""
        return self._key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def problem(self, signature: Signature, message: bytes) -> str:
        """Why the signature is not this key's over this message, or an empty string if it is."""
        if signature.key_id != self.key_id:
            return f"was made with the key {signature.key_id}, not with {self.key_id}"
        try:
            self._key.verify(signature.value, message)
        except InvalidSignature:
            return f"is wrong: the manifest is not what {self.key_id} signed"
        return ""


class PrivateKey:
    """What a signature is made with."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def load(cls, path: Path, *, passphrase: bytes | None = None) -> PrivateKey:
        """The private key in a PEM file that nobody else may read."""
        data = _read(path, "private key")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise AssetError(f"others may read the private key {path}", hint=f"chmod 600 {path}")
        try:
            key = serialization.load_pem_private_key(data, passphrase)
        except TypeError as error:
            need = "is encrypted" if passphrase is None else "is not encrypted, but a passphrase was given"
            raise AssetError(f"the private key {path} {need}", hint="See --passphrase.") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            reason = "or the passphrase is wrong" if passphrase else "in PEM form"
            raise AssetError(f"{path} is not a private key {reason}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise AssetError(f"{path} is a key of another kind; ed25519 is expected")
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """Its public half."""
        return PublicKey(self._key.public_key())

    def sign(self, message: bytes) -> Signature:
        """A signature over the message."""
        return Signature(key_id=self.public.key_id, value=self._key.sign(message))


def keygen(private: Path, *, passphrase: bytes | None = None) -> tuple[Path, PublicKey]:
    """Makes a key pair: `private` with mode 0600 and PRIVATE.pub beside it; neither may be there yet."""
    public = private.with_name(f"{private.name}.pub")
    for path in (private, public):
        if path.exists():
            raise AssetError(f"{path} is there already", hint="A key is never overwritten: choose another name.")
    key = Ed25519PrivateKey.generate()
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        if not passphrase:
            raise AssetError("an empty passphrase protects nothing")
        encryption = serialization.BestAvailableEncryption(passphrase)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    with replacing(private, mode=0o600) as out:
        out.write(pem)
    made = PublicKey(key.public_key())
    with replacing(public) as out:
        out.write(made.to_pem())
    return public, made


def _read(path: Path, what: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise AssetError(f"the {what} {path} is not there") from None
    except OSError as error:
        raise AssetError(f"the {what} {path} cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as stream:
        return stream.read(_MAX_FILE)
