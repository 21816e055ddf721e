"""Limits of the kernel that all hosts of all labs share: raised with the first lab, put back with the last.

Every systemd watches files through a handful of inotify instances, of which one user may have 128 on most machines. All
hosts' root users are that one user: without more, the nineteenth host hangs while booting. Must not know what labs are.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from kubexm.lab.state import write_atomically

__all__ = ["raise_limits", "restore_limits"]

_WANTED = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 65536}
_SETTINGS = Path("/proc/sys")
_NOTE = Path("/run/kubexm-lab-limits.json")


def raise_limits() -> None:
    """Raise each limit that is too low, and note how it was before. The caller holds the machine."""
    low = {name: value for name in _WANTED if (value := _read(name)) < _WANTED[name]}
    if not low:
        return
    # What an earlier lab noted is how the machine was; what is there now may be that lab's doing.
    write_atomically(_NOTE, json.dumps({**low, **_noted()}) + "\n")
    for name in low:
        _write(name, _WANTED[name])


def restore_limits() -> None:
    """Put the limits back to what they were, unless somebody else has set them since. The caller holds the machine."""
    for name, value in _noted().items():
        if name in _WANTED and _read(name) == _WANTED[name]:
            _write(name, value)
    _NOTE.unlink(missing_ok=True)


def _noted() -> dict[str, int]:
    with suppress(OSError, ValueError):
        noted = json.loads(_NOTE.read_text(encoding="utf-8"))
        if isinstance(noted, dict):
            return {str(name): int(value) for name, value in noted.items()}
    return {}


def _read(name: str) -> int:
    return int((_SETTINGS / name).read_text(encoding="utf-8"))


def _write(name: str, value: int) -> None:
    (_SETTINGS / name).write_text(f"{value}\n", encoding="utf-8")
