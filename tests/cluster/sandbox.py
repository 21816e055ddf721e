"""A machine within the machine, for tests that compare it before and after: nothing else runs in it, and it ends whole.

It has processes, mounts, network, /run and control groups of its own; other files are the outer machine's. It must not
know what is tried out in it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubexm.lab.cgroups import Hierarchy, Subtree, hierarchies
from kubexm.lab.limits import raise_limits, restore_limits
from kubexm.lab.locks import locked_machine

__all__ = ["Sandbox", "sandbox"]

_GROUP = "kubexm-lab-"  # as labs' own, so that labs outside leave alone what is shared while a sandbox lives

_ENTER = """\
set -eu
for entry in {entries}; do echo 0 >"$entry"; done
exec unshare --cgroup --mount --net --ipc --uts --pid --fork --kill-child=KILL --mount-proc \\
    sh -euc "$0" sh "$@"
"""

_INSIDE = """\
mount --make-rprivate /
umount --recursive --lazy /sys
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/lock
{cgroups}
ip link set lo up
exec "$@"
"""


class Sandbox:
    """Runs Python programs, each in a sandbox of its own."""

    def __init__(self, group: Subtree, *, only_version_2: bool) -> None:
        self._group = group
        self._only_version_2 = only_version_2

    def run(self, program: Path, *arguments: str, env: dict[str, str], timeout: float) -> str:
        """The output of the program, which must succeed."""
        enter = _ENTER.format(entries=" ".join(shlex.quote(str(entry)) for entry in self._group.entries))
        inside = _INSIDE.format(cgroups=_mounts(self._group.trees, only_version_2=self._only_version_2))
        done = subprocess.run(
            ["sh", "-c", enter, inside, sys.executable, str(program), *arguments],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@contextmanager
def sandbox(name: str, *, only_version_2: bool = False) -> Iterator[Sandbox]:
    """A sandbox whose control groups end in `name` on the outer machine, and are gone afterwards."""
    trees = hierarchies()
    if only_version_2 and not any(tree.version == 2 for tree in trees):
        trees = ()
    group = Subtree(path=f"{_GROUP}sandbox-{name}", trees=trees)
    with locked_machine():
        group.make()
        raise_limits()  # a lab in the sandbox cannot know of those outside, and would put the limits back too early
    try:
        yield Sandbox(group, only_version_2=only_version_2)
    finally:
        group.remove()
        with locked_machine():
            if not group.siblings(_GROUP):
                restore_limits()


def _mounts(trees: tuple[Hierarchy, ...], *, only_version_2: bool) -> str:
    """Commands that mount the same hierarchies, which then start at the sandbox's own groups."""
    if only_version_2 or all(tree.version == 2 for tree in trees):
        return "mount -t cgroup2 cgroup2 /sys/fs/cgroup"
    lines = ["mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup"]
    options = _options()
    for tree in trees:
        lines.append(f"mkdir {shlex.quote(str(tree.root))}")
        if tree.version == 2:
            lines.append(f"mount -t cgroup2 cgroup2 {shlex.quote(str(tree.root))}")
        else:
            lines.append(f"mount -t cgroup -o {options[tree.root]} cgroup {shlex.quote(str(tree.root))}")
    return "\n".join(lines)


def _options() -> dict[Path, str]:
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()
        if kind == "cgroup":
            chosen = [word for word in options.split(",") if word not in ("rw", "ro", "xattr")]
            if any(word.startswith("name=") for word in chosen):
                chosen = ["none", *chosen]
            found[Path(before.split()[4])] = ",".join(chosen)
    return found
