"""A copy of this machine that can be changed at will: an overlay over /, in a mount namespace of its own.

Commands are real and run as root in it; nothing outside the test's temporary directory changes.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import NoStreams
from kubexm.connector.base import Command, CommandResult, Receipt, Upload
from kubexm.redact import Secret
from kubexm.runner import Facts, Runner


@dataclass(frozen=True)
class Sandbox:
    """A connector to the copy."""

    root: Path
    pid: int

    @property
    def host(self) -> str:
        return "sandbox"

    @property
    def streams(self) -> NoStreams:
        return NoStreams(self.host)

    async def connect(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def execute(self, command: Command) -> CommandResult:
        env = {k: v.reveal() if isinstance(v, Secret) else v for k, v in command.env.items()}
        process = await asyncio.create_subprocess_exec(
            "nsenter", "-t", str(self.pid), "-m", "chroot", str(self.root), "sh", "-c", command.script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **env},
        )  # fmt: skip
        stdout, stderr = await asyncio.wait_for(process.communicate(command.stdin or b""), command.timeout)
        return CommandResult(
            host=self.host,
            command=command.display or command.script,
            exit_code=process.returncode or 0,
            stdout=stdout,
            stderr=stderr,
        )

    async def upload(self, upload: Upload) -> bool:
        data = upload.source if isinstance(upload.source, bytes) else upload.source.read_bytes()
        path = shlex.quote(str(upload.path))
        script = f"cat >{path} && chmod {upload.mode:o} {path} && chown {upload.owner}:{upload.group} {path}"
        (await self.execute(Command(script=script, changes=True, stdin=data))).check()
        return True

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        result = await self.execute(Command(script=f"cat {shlex.quote(str(path))}"))
        target.write_bytes(result.check().stdout)

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        return ()

    async def forget(self, prefix: str) -> None:
        return None

    async def boot_id(self) -> str:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        return None

    def sh(self, script: str) -> str:
        """Runs a script there and gives its output."""
        argv = ["nsenter", "-t", str(self.pid), "-m", "chroot", str(self.root), "sh", "-c", script]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A fresh copy of this machine."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a mount namespace")
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    script = (
        'mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" && '
        'mount --rbind /proc "$1/root/proc" && mount --rbind /sys "$1/root/sys" && mount --rbind /dev "$1/root/dev" && '
        'mount -t tmpfs tmpfs "$1/root/run" && mkdir -p "$1/root/scratch" && '
        'mkdir -p "$1/root/var/lib/kubexm" && mount -t tmpfs -o mode=755 tmpfs "$1/root/var/lib/kubexm" && '
        "echo ready && exec sleep 3600"
    )
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(tmp_path)]
    holder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        if holder.stdout.readline().strip() != "ready":
            pytest.skip(f"cannot mount an overlay here: {holder.stderr.read().strip()}")
        yield Sandbox(tmp_path / "root", holder.pid)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        holder.stderr.close()


@pytest.fixture
def runner() -> Runner:
    """The runner."""
    return Runner()


@pytest.fixture
def facts() -> Facts:
    """Facts nobody looked up."""
    return Facts.assumed()


@pytest.fixture
def now() -> float:
    """The time, on the clock the sandbox has too."""
    return time.time()
