"""A host's disk: a file system of bounded size, and the root of the host as an overlay on it. Must not know processes.

Each disk is a sparse ext4 image on a loop device, so that a full one is full as a real one is. It has no journal and no
write barriers: a lab's "power cut" ends a host's processes, never this machine, so nothing that was written is lost.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import LabError, UsageError
from kubexm.lab.commands import run
from kubexm.lab.state import write_atomically

__all__ = ["SMALLEST", "Disk", "mounts_below", "overlay_path", "parse_size", "release_loops", "unmount_below"]

# Container runtimes stack overlays of their own, which an overlay cannot carry.
_REAL_FOLDERS = ("/var/lib/containerd", "/var/lib/kubelet")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SMALLEST = 256 * 2**20
_MOUNTS = Path("/proc/self/mountinfo")
_LOOP_CTL_REMOVE = 0x4C81
_LOOPS_OF_THE_KERNEL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk of one host, all of it below `folder`."""

    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "disk.img"

    @property
    def device(self) -> Path:
        """Where the host's file system is mounted on this machine."""
        return self.folder / "disk"

    @property
    def root(self) -> Path:
        """Where the host's root directory is mounted on this machine."""
        return self.folder / "root"

    @property
    def binds(self) -> dict[Path, str]:
        """Directories of the disk to be mounted into the host, and where."""
        return {self.device / "real" / path.rpartition("/")[2]: path for path in _REAL_FOLDERS}

    @property
    def is_full(self) -> bool:
        """Whether `fill` has taken the disk's space."""
        return self._filler.exists()

    @property
    def _filler(self) -> Path:
        return self.device / "filler"

    @property
    def layers(self) -> tuple[Path, ...] | None:
        """The image this disk was settled over; None until it was."""
        try:
            return tuple(Path(layer) for layer in json.loads(self._layers.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    @property
    def _layers(self) -> Path:
        return self.folder / "layers.json"

    def settle(self, layers: Sequence[Path]) -> None:
        """Note that the disk holds all it needs to boot, and over which image it must be mounted from now on."""
        write_atomically(self._layers, json.dumps([str(layer) for layer in layers]) + "\n")

    def make(self, size: int) -> None:
        """Make an empty disk of that many bytes; one that is there is kept."""
        if self.image.exists():
            return
        unfinished = self.image.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with unfinished.open("wb") as file:
            os.truncate(file.fileno(), size)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1", unfinished)
        unfinished.rename(self.image)

    def mount(self, layers: Sequence[Path]) -> None:
        """Mount the disk, and the root over `layers`, topmost first; what is mounted stays so."""
        if gone := [layer for layer in layers if not layer.is_dir()]:
            raise LabError(
                f"The image of {self.folder.name} is gone: {gone[0]}.", hint="Take the lab down and make it anew."
            )
        mounted = mounts_below(self.folder)
        if self.device not in mounted:
            self.device.mkdir(exist_ok=True)
            # An earlier stop of the whole machine may have left it unclean; 1 means "repaired".
            run("sh", "-c", 'e2fsck -p "$1" >/dev/null || [ $? -eq 1 ]', "sh", self.image, timeout=300)
            run("mount", "-o", "loop,nobarrier,discard", self.image, self.device)
        for name in ("upper", "work"):
            (self.device / name).mkdir(mode=0o755, exist_ok=True)
        for folder in self.binds:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if self.root not in mounted:
            self.root.mkdir(exist_ok=True)
            lower = ":".join(overlay_path(layer) for layer in layers)
            upper, work = overlay_path(self.device / "upper"), overlay_path(self.device / "work")
            options = f"lowerdir={lower},upperdir={upper},workdir={work}"
            run("mount", "-t", "overlay", "kubexm-lab", "-o", options, self.root)

    def fill(self, *, leave: int = 0) -> int:
        """Take the disk's free space but for `leave` bytes, so that writes fail; returns the bytes taken."""
        self._mounted()
        self.free()
        fd = os.open(self._filler, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _allocate(fd, leave, self.device)
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def free(self) -> None:
        """Give back what `fill` took."""
        self._mounted()
        self._filler.unlink(missing_ok=True)

    def usage(self) -> tuple[int, int] | None:
        """Bytes used and bytes in all, as the host sees them; None while it is not mounted."""
        if self.device not in mounts_below(self.folder):
            return None
        total, _, free = shutil.disk_usage(self.device)
        return total - free, total

    def _mounted(self) -> None:
        if self.device not in mounts_below(self.folder):
            raise LabError(f"The disk of {self.folder.name} is not mounted.", hint="Run `kubexm lab up` again.")


def parse_size(text: str) -> int:
    """Bytes in `20G`, `512M` or `1073741824`."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size.", hint="Write it as 20G, 512M or a number of bytes.")
    return int(match[1]) * _UNITS[match[2].upper()]


def mounts_below(folder: Path) -> list[Path]:
    """What is mounted at or below a directory of this machine, in the order it was mounted."""
    return [path for path, _ in _mounts(folder)]


def unmount_below(folder: Path) -> set[int]:
    """Unmount everything at or below a directory, last mounted first; returns the loop devices this freed."""
    loops: set[int] = set()
    for path, source in reversed(_mounts(folder)):
        run("umount", path, timeout=120)
        if match := re.fullmatch(r"/dev/loop(\d+)", source):
            loops.add(int(match[1]))
    return loops


def release_loops(numbers: set[int]) -> None:
    """Remove loop devices beyond those every machine has; one that somebody uses stays."""
    surplus = sorted(number for number in numbers if number >= _LOOPS_OF_THE_KERNEL)
    if not surplus:
        return
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for number in surplus:
            with suppress(OSError):
                fcntl.ioctl(control, _LOOP_CTL_REMOVE, number)
    finally:
        os.close(control)


def _allocate(fd: int, leave: int, mounted: Path) -> None:
    """Grow the file in ever smaller pieces until nothing fits; space is reserved, not written."""
    size, piece = 0, 2**30
    while piece >= 4096:
        spare = shutil.disk_usage(mounted).free - leave
        if spare < piece:
            piece //= 2
            continue
        try:
            os.posix_fallocate(fd, size, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            piece //= 2
        else:
            size += piece


def _mounts(folder: Path) -> list[tuple[Path, str]]:
    found = []
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        path = Path(_unescaped(before.split()[4]))
        if path == folder or folder in path.parents:
            found.append((path, _unescaped(after.split()[1])))
    return found


def overlay_path(path: Path) -> str:
    """A path in the options of an overlay, where colons, commas and backslashes mean something."""
    return re.sub(r"([\\:,])", r"\\\1", str(path))


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
