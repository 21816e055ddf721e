"""Which shared libraries a program opens, read from the file itself. Knows nothing of where they come from."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import LabError

__all__ = ["Linkage", "linkage"]

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB = 1, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """What a program or library asks the system for: its loader, if it is a program, and libraries by name."""

    interpreter: str
    needed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def linkage(path: Path) -> Linkage | None:
    """The linkage of a 64-bit little-endian ELF file; None if it is something else (a script, a text, a static one)."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    try:
        return _read(data)
    except (struct.error, ValueError, StopIteration) as error:
        raise LabError(f"{path} is a damaged program: {error}") from None


def _read(data: bytes) -> Linkage | None:
    table, size, count = _unpack("<Q14xHH", data, 32)
    segments = []
    for number in range(count):
        at = table + number * size
        kind, offset, address, _, in_file = _unpack("<I4xQQQQ", data, at)
        segments.append(_Segment(kind, offset, address, in_file))
    interpreter = next((_text(data, part.offset) for part in segments if part.kind == _PT_INTERP), "")
    dynamic = next((part for part in segments if part.kind == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    tags = [_unpack("<QQ", data, dynamic.offset + at) for at in range(0, dynamic.size, 16)]
    strings = _file_offset(next(value for tag, value in tags if tag == _DT_STRTAB), segments)
    needed = tuple(_text(data, strings + value) for tag, value in tags if tag == _DT_NEEDED)
    return Linkage(interpreter=interpreter, needed=needed)


def _file_offset(address: int, segments: list[_Segment]) -> int:
    for part in segments:
        if part.kind == _PT_LOAD and part.address <= address < part.address + part.size:
            return address - part.address + part.offset
    raise ValueError(f"address {address:#x} is in no part of the file")


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("ascii")


def _unpack(layout: str, data: bytes, at: int) -> tuple[int, ...]:
    return struct.unpack_from(layout, data, at)
