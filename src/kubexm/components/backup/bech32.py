"""Bech32 (BIP 173) of any length: how age writes keys, with a checksum that finds typing errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["decode", "encode"]

_LETTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def encode(kind: str, content: bytes) -> str:
    """The content in lower case, after its kind and a 1."""
    words = _regroup(content, 8, 5, pad=True)
    check = _polymod([*_expanded(kind), *words, *[0] * 6]) ^ 1
    checksum = [(check >> 5 * (5 - place)) & 31 for place in range(6)]
    return f"{kind}1" + "".join(_LETTERS[word] for word in (*words, *checksum))


def decode(text: str) -> tuple[str, bytes]:
    """Kind and content. ValueError if the checksum does not match."""
    lower = text.lower()
    if text not in (lower, text.upper()) or not text.isascii():
        raise ValueError("it mixes upper and lower case, or has other characters")
    kind, separator, rest = lower.rpartition("1")
    if not separator or not kind or len(rest) < 6 or any(letter not in _LETTERS for letter in rest):
        raise ValueError("it is no key")
    words = [_LETTERS.index(letter) for letter in rest]
    if _polymod([*_expanded(kind), *words]) != 1:
        raise ValueError("its checksum does not match: was it copied in full?")
    return kind, bytes(_regroup(words[:-6], 5, 8, pad=False))


def _expanded(kind: str) -> list[int]:
    return [*(ord(letter) >> 5 for letter in kind), 0, *(ord(letter) & 31 for letter in kind)]


def _polymod(values: Iterable[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate(_GENERATOR):
            check ^= generator if top >> place & 1 else 0
    return check


def _regroup(values: Iterable[int], old: int, new: int, *, pad: bool) -> list[int]:
    held = bits = 0
    found: list[int] = []
    for value in values:
        held, bits = (held << old | value), bits + old
        while bits >= new:
            bits -= new
            found.append(held >> bits & (1 << new) - 1)
            held &= (1 << bits) - 1
    if pad and bits:
        found.append(held << new - bits & (1 << new) - 1)
    elif not pad and (bits >= old or held):
        raise ValueError("it has bits that belong to nothing")
    return found
