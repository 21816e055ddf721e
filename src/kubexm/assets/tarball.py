"""The little of tar that kubexm writes and reads: plain files with ustar headers. All else is named, to be refused."""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.assets.layout import ustar_split
from kubexm.errors import AssetError

__all__ = ["BLOCK", "END", "Member", "member_length", "padding", "parse_header", "tar_header"]

BLOCK = 512
END = bytes(2 * BLOCK)
"""What a tar ends with."""

_KINDS = {
    b"0": "",
    b"\x00": "",
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a directory",
    b"6": "a named pipe",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a header says about the member that follows it."""

    name: str
    size: int
    kind: str
    """Empty for a plain file, else what it is instead."""


def tar_header(path: str, size: int, *, mode: int = 0o644) -> bytes:
    """A ustar header for a plain file with nothing in it that differs from machine to machine."""
    split = ustar_split(path)
    if split is None:
        raise AssetError(f"{path} is too long for a tar header")
    prefix, name = split
    if size >= 8**11:
        raise AssetError(f"{path} is too large for a tar header ({size} bytes)")
    header = bytearray(BLOCK)

    def put(at: int, value: bytes) -> None:
        header[at : at + len(value)] = value

    put(0, name.encode())
    put(100, b"%07o\x00" % mode + b"0000000\x00" * 2)
    put(124, b"%011o\x00" % size)
    put(136, b"%011o\x00" % 0)
    put(148, b" " * 8)
    put(156, b"0")
    put(257, b"ustar\x0000")
    put(329, b"0000000\x00" * 2)
    put(345, prefix.encode())
    put(148, b"%06o\x00 " % sum(header))
    return bytes(header)


def parse_header(block: bytes) -> Member | None:
    """The member a header announces, or None if it is no valid header."""
    try:
        if sum(block[:148]) + 8 * 32 + sum(block[156:]) != int(block[148:156].rstrip(b" \x00") or b"0", 8):
            return None
        name = _text(block[0:100])
        if block[257:262] == b"ustar" and (prefix := _text(block[345:500])):
            name = f"{prefix}/{name}"
        field = block[124:136]
        size = int.from_bytes(field[1:], "big") if field[0] & 0x80 else int(field.rstrip(b" \x00") or b"0", 8)
    except (ValueError, IndexError):
        return None
    kind = _KINDS.get(block[156:157], f"a member of type {block[156:157]!r}")
    return Member(name=name, size=size, kind=kind)


def padding(size: int) -> bytes:
    """The zeros after a member of this size."""
    return bytes(-size % BLOCK)


def member_length(size: int) -> int:
    """How much of a tar a member of this size takes, header and padding included."""
    return BLOCK + size + -size % BLOCK


def _text(field: bytes) -> str:
    return field.split(b"\x00", 1)[0].decode("utf-8", "backslashreplace")
