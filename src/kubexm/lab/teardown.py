"""Taking a lab down: all of it, whatever state it is in. Must not know how any of it was made.

Works from the lab's record and from the machine itself: what runs in the lab's control groups, what is mounted in its
folder, which interfaces carry its prefix. So it also removes what a run that was killed had no time to note.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.cgroups import Subtree
from kubexm.lab.disk import mounts_below, release_loops, unmount_below
from kubexm.lab.machine import Machine
from kubexm.lab.network import LabNetwork
from kubexm.lab.state import LabRecord, unfinished_name

__all__ = ["remove_cluster_file", "remove_everything", "remove_folder"]

_PATIENCE = 30.0
_NSPAWN = Path("/run/systemd/nspawn")


def remove_everything(*, folder: Path, machines: Sequence[Machine], group: Subtree, network: LabNetwork) -> None:
    """End the lab's processes and remove its control groups, interfaces and mounts; its files are left."""
    for machine in machines:
        machine.kill()
    group.kill()
    group.remove()
    network.remove()
    release_loops(_unmount(folder))
    for left in (_NSPAWN / "locks", _NSPAWN / "propagate", _NSPAWN, _NSPAWN.parent):
        with suppress(OSError):  # other containers' things are in there
            left.rmdir()


def remove_cluster_file(record: LabRecord) -> Path | None:
    """Remove the cluster file the lab wrote; returns its path if somebody has changed it since, and it was kept."""
    if not record.cluster_file:
        return None
    file = Path(record.cluster_file)
    unfinished_name(file).unlink(missing_ok=True)
    try:
        content = file.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != record.cluster_file_digest:
        return file
    file.unlink()
    return None


def remove_folder(folder: Path) -> None:
    """Remove the lab's folder, its record last, so that this can be repeated if it is cut short."""
    if mounted := mounts_below(folder):
        raise LabError(f"{mounted[-1]} is still mounted.", hint="Try `lab down` again.")
    for entry in sorted(folder.iterdir(), key=lambda path: path.name == "lab.json"):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    folder.rmdir()
    with suppress(OSError):  # other labs live there
        folder.parent.rmdir()


def _unmount(folder: Path) -> set[int]:
    """Unmount all of it; a mount stays busy for a moment after the last process that used it has ended."""
    deadline = time.monotonic() + _PATIENCE
    loops: set[int] = set()
    while mounts_below(folder):
        try:
            loops |= unmount_below(folder)
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    return loops
