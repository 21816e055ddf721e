"""What a lab consists of, on disk. Must not know how any of it is made.

The record is written before what it describes is made, and removed after all of it is gone, so `lab down` finds
everything, whatever happened to the process that made it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from kubexm.errors import LabError, UsageError
from kubexm.lab.systems import DEFAULT_SYSTEM

__all__ = [
    "HostRecord",
    "LabRecord",
    "check_name",
    "read_record",
    "unfinished_name",
    "write_atomically",
    "write_record",
]

_FORMAT = 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_FILE = "lab.json"
_RENAMED = {"debian12": "plain"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One host of a lab."""

    name: str
    number: int
    flavour: str
    machine_id: str
    system: str = DEFAULT_SYSTEM
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRecord:
    """A whole lab: the first `control_planes` hosts are its control planes."""

    name: str
    prefix: str
    subnet: IPv4Network
    control_planes: int
    disk: int
    hosts: tuple[HostRecord, ...]
    cluster_file: str = ""
    cluster_file_digest: str = ""

    def with_cut(self, host: str, *, cut: bool) -> LabRecord:
        """The same lab with the host's cable noted as pulled or plugged in."""
        return replace(self, hosts=tuple(replace(each, cut=cut) if each.name == host else each for each in self.hosts))


def check_name(name: str) -> str:
    """The name, if a lab may have it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a lab.",
            hint="Use up to 40 lower-case letters, digits and hyphens, with a letter or digit at both ends.",
        )
    return name


def read_record(folder: Path) -> LabRecord | None:
    """The record in a lab's folder; None if there is none yet."""
    file = folder / _FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LabError(f"{file} is damaged: {error}.", hint="Restore it, or remove the lab by hand.") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise LabError(f"{file} was written by another version of kubexm.", hint="Take the lab down with that version.")
    try:
        return _decode(data)
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{file} is damaged: {error!r}.", hint="Restore it, or remove the lab by hand.") from error


def write_record(folder: Path, record: LabRecord) -> None:
    """Write the record, durably, in one piece."""
    data = {"format": _FORMAT, **asdict(record), "subnet": str(record.subnet)}
    write_atomically(folder / _FILE, json.dumps(data, indent=2) + "\n")


def write_atomically(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file's content in one step; a reader sees the old or the new text, never a part."""
    unfinished = unfinished_name(file)
    unfinished.unlink(missing_ok=True)  # what a killed run left
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)
    unfinished.replace(file)


def unfinished_name(file: Path) -> Path:
    """Where the new content of a file is until it is whole."""
    return file.with_name(f".{file.name}.kubexm-new")


def _decode(data: dict[str, Any]) -> LabRecord:
    known = {key: value for key, value in data.items() if key != "format"}
    known["subnet"] = IPv4Network(data["subnet"])
    known["hosts"] = tuple(_decode_host(host) for host in data["hosts"])
    return LabRecord(**known)


def _decode_host(data: dict[str, Any]) -> HostRecord:
    # Before hosts had a system, the plain flavour was called by the only one there was.
    return HostRecord(**data | {"flavour": _RENAMED.get(data["flavour"], data["flavour"])})
