"""The processes of one host: power on, power off. Must not know its users, its disk's make-up or its place in a lab.

A small shell script of the host's own starts systemd-nspawn, and starts it again when the host reboots. It outlives
kubexm. It is found again by its process id and start time, and everything it started by the control groups it is in.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.cgroups import Subtree

__all__ = ["Machine"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RUN = Path("/run/systemd/nspawn")
_LAUNCH = 20.0  # seconds until the launcher has said who it is; it takes a hundredth of one

_LAUNCHER = """\
#!/bin/sh
# Keeps one lab host powered on: boots it, and boots it again when it reboots.
set -eu
cd /
PATH={path}
for entry in {own_groups}; do echo 0 >"$entry"; done
stat=$(cat /proc/$$/stat)
set -- $stat
echo "$1 ${{22}}" >{process}.new
mv {process}.new {process}
set +e
while :; do
    # Left from before a reboot: the cable, which would linger, and control groups, which a machine does not keep.
    ip link delete {link} 2>/dev/null
    find {groups} -mindepth 1 -depth -type d -exec rmdir {{}} + 2>/dev/null
    (
        set -e
        for entry in {host_groups}; do echo 0 >"$entry"; done
        exec env -i PATH="$PATH" SYSTEMD_NSPAWN_API_VFS_WRITABLE=network {command}
    )
    status=$?
    [ "$status" -eq 133 ] || exit "$status"  # 133: the host asked for a reboot
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One host's processes. `name` is the host's own name, `unique_name` its name on this machine."""

    name: str
    unique_name: str
    folder: Path
    root: Path
    binds: Mapping[Path, str]
    bridge: str
    link: str
    group: Subtree
    launcher_group: Subtree

    @property
    def console(self) -> Path:
        """All the host ever wrote to its console."""
        return self.folder / "console.log"

    @property
    def is_on(self) -> bool:
        """Whether the host is powered on: booting, up or rebooting."""
        return self._launcher_pid() is not None

    def start(self) -> None:
        """Power on; a host that is on is left alone. Returns at once, long before the host has booted."""
        if self.is_on:
            return
        self.group.make()
        self.launcher_group.make()
        script = self.folder / "boot.sh"
        script.write_text(self._script(), encoding="utf-8")
        self._process.unlink(missing_ok=True)
        with self.console.open("ab") as console:
            # Inherits none of the locks that are held here: it lives on.
            subprocess.run(
                ["setsid", "--fork", "sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": _PATH},
                check=True,
            )
        deadline = time.monotonic() + _LAUNCH
        while not self._process.exists():
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.name} cannot be started: {self.last_words()}", hint=f"Its console is {self.console}."
                )
            time.sleep(0.005)

    def kill(self) -> None:
        """Cut the power; returns when nothing of the host runs any more."""
        if (pid := self._launcher_pid()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in (self.launcher_group, self.group):
            group.kill()
            group.remove()
        self._forget()

    def leader(self) -> int | None:
        """The process that is number 1 inside the host, by its number on this machine."""
        for pid in sorted(self.group.pids()):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
                if len(numbers) == 2 and numbers[1] == "1":
                    return pid
        return None

    def last_words(self, lines: int = 3) -> str:
        """The last lines on the console that say anything."""
        try:
            text = self.console.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])

    @property
    def _process(self) -> Path:
        return self.folder / "process"

    def _launcher_pid(self) -> int | None:
        """The launcher's process id, if that process is still the launcher."""
        try:
            pid, started = self._process.read_text(encoding="utf-8").split()
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        return int(pid) if fields[19] == started and fields[0] != "Z" else None

    def _forget(self) -> None:
        """Remove what systemd-nspawn leaves in /run when it is killed."""
        self._process.unlink(missing_ok=True)
        with suppress(OSError):
            (_RUN / "propagate" / self.unique_name).rmdir()
        with suppress(OSError):
            stat = self.root.stat()
            (_RUN / "locks" / f"inode-{stat.st_dev}:{stat.st_ino}").unlink()

    def _script(self) -> str:
        command = [
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--boot",
            "--capability=all",
            "--system-call-filter=@known",
            f"--network-bridge={self.bridge}",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=read-only",
            f"--directory={self.root}",
            f"--machine={self.unique_name}",
            f"--hostname={self.name}",
            *(f"--bind={_bind_path(source)}:{target}" for source, target in self.binds.items()),
        ]
        return _LAUNCHER.format(
            path=_PATH,
            own_groups=_quoted(self.launcher_group.entries),
            host_groups=_quoted(self.group.entries),
            groups=_quoted(self.group.folders),
            process=shlex.quote(str(self._process)),
            link=shlex.quote(self.link),
            command=shlex.join(command),
        )


def _quoted(paths: tuple[Path, ...]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)


def _bind_path(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
