"""The age file format, version 1, with X25519 recipients: files sealed here open with `age`, and the other way round.

Only the primitives come from a library. Contents are keys and settings, a few hundred kilobytes, so they are sealed and
opened in memory. Must not know what is sealed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kubexm.components.backup.bech32 import decode, encode
from kubexm.redact import Secret

__all__ = [
    "SealError",
    "WrongKey",
    "new_identity",
    "open_sealed",
    "parse_identity",
    "parse_recipient",
    "recipient_of",
    "seal",
]

_VERSION: Final = b"age-encryption.org/v1"
_INFO: Final = b"age-encryption.org/v1/X25519"
_CHUNK: Final = 64 * 1024
_TAG: Final = 16
_KEY: Final = 16
_RECIPIENT: Final = "age"
_IDENTITY: Final = "age-secret-key-"
_MOST_STANZAS: Final = 100


class SealError(ValueError):
    """A key or a sealed file that cannot be used; says why, and never holds a key."""


class WrongKey(SealError):
    """The file is sealed for other keys."""


def new_identity() -> Secret:
    """A private key, as one line of text."""
    return Secret(encode(_IDENTITY, X25519PrivateKey.generate().private_bytes_raw()).upper())


def recipient_of(identity: Secret) -> str:
    """The public key of a private one: whom to seal for."""
    return encode(_RECIPIENT, _private(identity).public_key().public_bytes_raw())


def parse_recipient(text: str) -> str:
    """The public key, checked. SealError if it is none."""
    _public(text)
    return text


def parse_identity(text: str) -> Secret:
    """The first private key in the text of a key file; lines that begin with # are comments."""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            identity = Secret(line)
            _private(identity)
            return identity
    raise SealError("it holds no private key")


def seal(content: bytes, recipients: Sequence[str]) -> bytes:
    """The content, which only the private key of one of these recipients can open."""
    if not recipients:
        raise SealError("there is no recipient to seal for")
    file_key, lines = secrets.token_bytes(_KEY), [_VERSION]
    for recipient in recipients:
        lines += _wrap(file_key, _public(recipient))
    header = b"\n".join([*lines, b"---"])
    nonce = secrets.token_bytes(16)
    head = header + b" " + _base64(_mac(file_key, header)) + b"\n" + nonce
    cipher = ChaCha20Poly1305(_derive(file_key, nonce, b"payload"))
    pieces = [content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK)] or [b""]
    sealed = [
        cipher.encrypt(_nonce(number, last=number == len(pieces) - 1), piece, None)
        for number, piece in enumerate(pieces)
    ]
    return head + b"".join(sealed)


def open_sealed(sealed: bytes, identity: Secret) -> bytes:
    """What was sealed. WrongKey if it is for other keys, SealError if it is damaged."""
    header = _header(sealed)
    file_key = _unwrap(header, _private(identity))
    if not hmac.compare_digest(_mac(file_key, header.signed), header.mac):
        raise SealError("its header is damaged")
    nonce, body = sealed[header.size : header.size + 16], sealed[header.size + 16 :]
    if len(nonce) < 16 or len(body) < _TAG:
        raise SealError("it is truncated")
    cipher = ChaCha20Poly1305(_derive(file_key, nonce, b"payload"))
    pieces = [body[start : start + _CHUNK + _TAG] for start in range(0, len(body), _CHUNK + _TAG)]
    opened: list[bytes] = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        try:
            opened.append(cipher.decrypt(_nonce(number, last=last), piece, None))
        except InvalidTag:
            raise SealError("it is truncated or damaged") from None
        if last and number and not opened[-1]:
            raise SealError("it is damaged: its last part is empty")
    return b"".join(opened)


@dataclass(frozen=True, slots=True)
class _Header:
    stanzas: tuple[tuple[tuple[str, ...], bytes], ...]
    """Arguments and body of each."""
    signed: bytes
    mac: bytes
    size: int


def _header(sealed: bytes) -> _Header:
    if not sealed.startswith(_VERSION + b"\n"):
        raise SealError("it is not in the age format, version 1")
    place = len(_VERSION) + 1
    stanzas: list[tuple[tuple[str, ...], bytes]] = []
    for _ in range(_MOST_STANZAS + 1):
        line, end = _line(sealed, place)
        if line.startswith(b"--- "):
            return _Header(tuple(stanzas), sealed[: place + 3], _unbase64(line[4:]), end)
        if not line.startswith(b"-> "):
            break
        words = tuple(line[3:].decode("ascii", "replace").split(" "))
        body, place = b"", end
        while True:
            line, place = _line(sealed, place)
            body += _unbase64(line)
            if len(line) < 64:
                break
        stanzas.append((words, body))
    raise SealError("its header is damaged")


def _line(sealed: bytes, place: int) -> tuple[bytes, int]:
    end = sealed.find(b"\n", place, place + 1024)
    if end < 0:
        raise SealError("its header is truncated")
    return sealed[place:end], end + 1


def _wrap(file_key: bytes, recipient: X25519PublicKey) -> list[bytes]:
    own = X25519PrivateKey.generate()
    share, whose = own.public_key().public_bytes_raw(), recipient.public_bytes_raw()
    key = _derive(own.exchange(recipient), share + whose, _INFO)
    return [b"-> X25519 " + _base64(share), _base64(ChaCha20Poly1305(key).encrypt(bytes(12), file_key, None))]


def _unwrap(header: _Header, identity: X25519PrivateKey) -> bytes:
    whose = identity.public_key().public_bytes_raw()
    for words, body in header.stanzas:
        if words[0] != "X25519":
            continue
        share = _unbase64(words[1].encode()) if len(words) == 2 else b""
        if len(share) != 32 or len(body) != _KEY + _TAG:
            raise SealError("its header is damaged")
        try:
            shared = identity.exchange(X25519PublicKey.from_public_bytes(share))
            key = _derive(shared, share + whose, _INFO)
            return ChaCha20Poly1305(key).decrypt(bytes(12), body, None)
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("it is sealed for another key")


def _derive(material: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(material)


def _mac(file_key: bytes, header: bytes) -> bytes:
    return hmac.new(_derive(file_key, b"", b"header"), header, sha256).digest()


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if last else b"\x00")


def _base64(content: bytes) -> bytes:
    return base64.b64encode(content).rstrip(b"=")


def _unbase64(text: bytes) -> bytes:
    """Unpadded, and written in the one way there is."""
    try:
        content = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        content = b""
    if _base64(content) != text:
        raise SealError("its header is damaged")
    return content


def _public(text: str) -> X25519PublicKey:
    try:
        kind, content = decode(text)
    except ValueError as error:
        raise SealError(f"{text[:100]!r} is not a public key: {error}") from None
    if kind != _RECIPIENT or len(content) != 32 or text != text.lower():
        raise SealError(f"{text[:100]!r} is not a public key: those begin with `age1`")
    return X25519PublicKey.from_public_bytes(content)


def _private(identity: Secret) -> X25519PrivateKey:
    text = identity.reveal()
    try:
        kind, content = decode(text)
    except ValueError:
        kind, content = "", b""
    if kind != _IDENTITY or len(content) != 32 or text != text.upper():
        raise SealError("it holds no private key: those begin with `AGE-SECRET-KEY-1`")
    return X25519PrivateKey.from_private_bytes(content)
