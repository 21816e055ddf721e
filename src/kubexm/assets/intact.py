"""Whether what is about to be installed from a bundle is whole, before anything is changed; cheap the second time.

What was read and found right is remembered by size, time and inode, so that only what was touched since is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kubexm.assets.bundle import Bundle
from kubexm.assets.disk import hash_file, replacing
from kubexm.assets.manifest import Entry
from kubexm.errors import AssetError

__all__ = ["check_intact"]

_SHOWN = 5


def check_intact(bundle: Bundle, paths: Iterable[str], cache: Path) -> None:
    """AssetError names what of these is missing or damaged in a bundle directory."""
    note = cache / "verified" / f"{hashlib.sha256(str(bundle.path.resolve()).encode()).hexdigest()[:32]}.json"
    seen = _remembered(note)
    entries = [bundle.entry(path) for path in dict.fromkeys(paths)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda entry: _look(bundle, entry, seen.get(entry.path, "")), entries))
    faults = [fault for _, _, fault in found if fault]
    if faults:
        more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise AssetError(
            f"the bundle {bundle.path} is damaged:\n" + "\n".join(f"  {fault}" for fault in faults[:_SHOWN]) + more,
            hint="get it again; `kubexm bundle verify` lists all that is wrong with it",
        )
    now = seen | {path: state for path, state, _ in found}
    if now != seen:
        with contextlib.suppress(AssetError, OSError), replacing(note, durable=False) as out:  # only a memory
            out.write(json.dumps(now, sort_keys=True).encode())


def _look(bundle: Bundle, entry: Entry, remembered: str) -> tuple[str, str, str]:
    """The path, how it is, and what is wrong with it."""
    path = bundle.path / entry.path
    try:
        stat = path.stat()
        state = f"{entry.sha256} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
        if stat.st_size != entry.size:
            return entry.path, "", f"{entry.path} has {stat.st_size} bytes instead of {entry.size}"
        if state != remembered and hash_file(path)[1] != entry.sha256:
            return entry.path, "", f"{entry.path} is not what the manifest says"
    except OSError as error:
        return entry.path, "", f"{entry.path} cannot be read: {error.strerror}"
    return entry.path, state, ""


def _remembered(note: Path) -> dict[str, str]:
    try:
        data = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}
