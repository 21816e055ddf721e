"""What the lab needs of this machine, and how to get it. Must not know what it is needed for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab.commands import Progress, quiet, stream

__all__ = ["check_platform", "check_tools", "missing_packages"]

_TOOLS = {
    "debootstrap": "debootstrap",
    "e2fsck": "e2fsprogs",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "mount": "mount",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "setsid": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")


def check_platform(what: str) -> None:
    """Refuse anything but Linux, and anybody but root."""
    if sys.platform != "linux":
        raise LabError(
            f"The lab runs on Linux only, and this is {sys.platform}.", hint="Use a Linux machine or a virtual one."
        )
    if os.geteuid() != 0:
        raise LabError(
            f"`kubexm lab {what}` needs root: hosts are made of namespaces, mounts and network interfaces.",
            hint=f"Run `sudo kubexm lab {what}`.",
        )


def check_tools(*, confirm: Callable[[str], bool] | None = None, log: Path, progress: Progress = quiet) -> None:
    """Refuse a machine without the programs and kernel features the lab needs; offer to install programs with apt.

    `confirm` is asked before anything is installed; with none, nothing is.
    """
    if missing := missing_packages():
        tools = ", ".join(dict.fromkeys(missing))
        packages = sorted(set(missing.values()))
        command = f"apt-get install --yes {' '.join(packages)}"
        if shutil.which("apt-get") is None:
            raise LabError(
                f"The lab needs {tools}, which this machine does not have.",
                hint=f"Install what your distribution calls {', '.join(packages)}.",
            )
        if confirm is None or not confirm(f"The lab needs {tools}. Install with `{command}`?"):
            raise LabError(
                f"The lab needs {tools}, which this machine does not have.",
                hint=f"Run `{command}`, or let kubexm do it with `kubexm lab up --install`.",
            )
        _install(packages, log=log, progress=progress)
        if still := missing_packages():
            raise LabError(f"{', '.join(still)} is still missing after `{command}`.", hint=f"See {log}.")
    _check_kernel()


def missing_packages() -> dict[str, str]:
    """The programs this machine lacks, each with the Debian package that brings it."""
    path = ":".join((os.environ.get("PATH", ""), *_FOLDERS))
    missing = {tool: package for tool, package in _TOOLS.items() if shutil.which(tool, path=path) is None}
    if not _KEYRING.exists():
        missing["Debian's archive keys"] = "debian-archive-keyring"
    return missing


def _install(packages: Iterable[str], *, log: Path, progress: Progress) -> None:
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    log.parent.mkdir(parents=True, exist_ok=True)
    progress(f"Installing {' '.join(packages)}")
    try:
        stream(["apt-get", "update"], on_line=quiet, log=log, env=environment)
    except LabError as error:  # one broken repository of many need not stand in the way
        progress(f"apt-get update: {error.message}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    stream(install, on_line=quiet, log=log, env=environment)


def _check_kernel() -> None:
    filesystems = Path("/proc/filesystems").read_text(encoding="utf-8").split()
    if "overlay" not in filesystems and not Path("/sys/module/overlay").exists():
        raise LabError("This kernel has no overlay file system.", hint="Load it with `modprobe overlay`.")
    if not Path("/dev/loop-control").exists():
        raise LabError("This kernel has no loop devices.", hint="Load them with `modprobe loop`.")
