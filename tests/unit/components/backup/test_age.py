"""Sealing: what is sealed opens with its key only, another program's files open here, and damage is found."""

from __future__ import annotations

import base64

import pytest

from kubexm.components.backup.age import (
    SealError,
    WrongKey,
    new_identity,
    open_sealed,
    parse_identity,
    parse_recipient,
    recipient_of,
    seal,
)
from kubexm.redact import Secret

_SEALED = (
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBFcmFKVElyRFFFaXg3bkZFTXlXUldoOG5uRkFENjNtV3N1SHFraFM5SkRZCjUzdWtMdy9q"
    "ODJHZVpRNGQreExkYTl1L0kvbldtS0U2WnVYeEVka2VPSjgKLT4gJystZ3JlYXNlIDogRSwKWXhtTm12MXVISm5QaEVJWlAwNlMzYVhxWVppZ1h5"
    "Nzh1SEVXeHhtNGlHclZOSzl6NGJWOAotLS0gZHFjeWI5dnllNm1mM0V2dnNEMkJQMEJ3ODJyYlVGQkc1ZVM1SnI3TlQ1awpszkxGObPd6C4cKkBe"
    "dp/uIjOKvdD4eJ6s1XKOYYntK9Aj7F2Gu6x6hUZBC07hDw7ybrTV4KC/TzeV"
)
OTHER_PROGRAM = (
    "AGE-SECRET-KEY-1MXGZ5NVPYEPQ0H36PH0XALWX3J06F42A4YNX5K8XMD40FL2VU5LSVCMCZZ",
    "age1jhhadpmtuh4l7h4lf9hfw5gtaag2wu0pajdsrr8kwk4qgwqcl36qr05pd6",
    _SEALED,
)
"""A key pair and a file made by rage, another implementation of the format; the pair is used for nothing else."""


def test_a_file_of_another_program_opens() -> None:
    identity, recipient, sealed = OTHER_PROGRAM
    assert recipient_of(Secret(identity)) == recipient
    assert open_sealed(base64.b64decode(sealed), Secret(identity)) == b"sealed by another program\n"


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_each_recipient_opens_it_and_nobody_else(size: int) -> None:
    one, two, other = new_identity(), new_identity(), new_identity()
    content = bytes(range(256)) * (size // 256 + 1)
    sealed = seal(content[:size], [recipient_of(one), recipient_of(two)])
    assert open_sealed(sealed, one) == open_sealed(sealed, two) == content[:size]
    with pytest.raises(WrongKey):
        open_sealed(sealed, other)


def test_every_truncation_and_flipped_byte_is_found() -> None:
    identity = new_identity()
    sealed = seal(b"content", [recipient_of(identity)])
    for place in range(len(sealed)):
        with pytest.raises(SealError):
            open_sealed(sealed[:place], identity)
        with pytest.raises(SealError):
            open_sealed(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :], identity)


def test_chunks_cannot_be_dropped_or_swapped() -> None:
    identity, chunk = new_identity(), 65536 + 16
    sealed = seal(b"a" * 65536 + b"b" * 65536 + b"c", [recipient_of(identity)])
    head = sealed[: len(sealed) - 2 * chunk - 17]
    first, second, last = sealed[len(head) :][:chunk], sealed[len(head) + chunk :][:chunk], sealed[-17:]
    for body in (first + second, first + last, second + first + last, last):
        with pytest.raises(SealError):
            open_sealed(head + body, identity)


@pytest.mark.parametrize(
    "text",
    ["", "age1", "AGE-SECRET-KEY-1QQQQ", OTHER_PROGRAM[0], OTHER_PROGRAM[1][:-1] + "q", OTHER_PROGRAM[1].upper()],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(SealError):
        parse_recipient(text)


def test_a_key_file_may_have_comments_and_errors_never_show_keys() -> None:
    identity = OTHER_PROGRAM[0]
    assert parse_identity(f"# public key: x\n\n{identity}\n").reveal() == identity
    for text in ("", "# nothing\n", OTHER_PROGRAM[1], identity[:-1], identity.lower()):
        with pytest.raises(SealError) as refused:
            parse_identity(text)
        assert identity[:-1].lower() not in str(refused.value).lower()


def test_nobody_to_seal_for_is_refused() -> None:
    with pytest.raises(SealError):
        seal(b"content", [])
