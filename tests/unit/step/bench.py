"""Steps on a bench: real scripts in a real shell on this machine, everything below one temporary directory."""

from __future__ import annotations

import asyncio
import getpass
import grp
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from kubexm.connector import Command, CommandResult, Connector, NoStreams, Receipt, Upload
from kubexm.redact import Secret
from kubexm.runner import Facts, Runner
from kubexm.runner.base import library
from kubexm.runtime import Context, HostRuntime, StepContext, Transcript, UnitConnector
from kubexm.step import Check, Reversible, Step, Values
from kubexm.testing.context import memory_context

_NEVER = (
    "apt-get", "chronyc", "dnf", "dpkg", "groupadd", "groupdel", "halt", "insmod", "modprobe", "mount", "poweroff",
    "reboot", "rpm", "shutdown", "swapoff", "swapon", "sysctl", "systemctl", "timedatectl", "umount", "useradd",
    "userdel", "usermod", "yum", "zypper",
)  # fmt: skip
_MACHINE = re.compile(r">\s*\S*/(proc/sys|etc|usr|var|boot)/|/etc/fstab")
"""What would change this machine; tests are for what happens below their own directory."""
_NAMING = library("naming")
"""Defined in every script that restores, and called only where a name of the host was kept: no test here keeps one."""

_ORDINARY = "" if os.geteuid() == 0 else f"{Path(__file__).parent / 'ordinary'}:"
"""Put before PATH for ordinary users: stand-ins for what only root may do."""

OWNER = getpass.getuser()
GROUP = grp.getgrgid(os.getgid()).gr_name


@dataclass
class ShellConnector:
    """Runs every script with /bin/sh, here, and counts them.

    Programs that could change this machine are out of its reach, whatever a test or the code under it does.
    """

    path: str
    """Put before PATH: stand-ins for programs."""
    commands: list[Command] = field(default_factory=list)

    @property
    def host(self) -> str:
        return "n1"

    @property
    def reads(self) -> int:
        return sum(not command.changes for command in self.commands)

    @property
    def streams(self) -> NoStreams:
        return NoStreams(self.host)

    async def connect(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def execute(self, command: Command) -> CommandResult:
        self.commands.append(command)
        harmless = command.script.replace("/etc/passwd", "").replace(_NAMING, "")
        if command.changes and _MACHINE.search(harmless):
            raise AssertionError(f"a test must not change this machine: {command.display or command.script}")
        env = {key: value.reveal() if isinstance(value, Secret) else value for key, value in command.env.items()}
        search = f"{self.path}:{_ORDINARY}{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command.script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PATH": search, **env},
        )  # fmt: skip
        stdout, stderr = await asyncio.wait_for(process.communicate(command.stdin or b""), command.timeout)
        if command.sink is not None:
            command.sink("stdout", stdout)
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
        command = Command(script=f"cat >{path} && chmod {upload.mode:o} {path}", changes=True, stdin=data)
        (await self.execute(command)).check()
        return True

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        target.write_bytes(Path(path).read_bytes())

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        return ()

    async def forget(self, prefix: str) -> None:
        return None

    async def boot_id(self) -> str:
        return "boot"

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        return None


@dataclass
class Bench:
    """One host, and steps carried out on it as the engine does."""

    root: Path
    connector: ShellConnector
    context: Context
    run_id: str = "run-1"
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, root: Path, *, facts: Facts | None = None) -> Bench:
        stand_ins = root / "bin"
        stand_ins.mkdir()
        connector = ShellConnector(path=str(stand_ins))
        known = facts or Facts.assumed()
        context = memory_context(root / "work", {"n1": connector}, facts={"n1": known})
        old = context.host_runtimes["n1"]
        runtime = HostRuntime(old.host, connector, known, Runner(PurePosixPath(root / "state")))
        bench = cls(root, connector, replace(context, host_runtimes={"n1": runtime}))
        for name in _NEVER:
            bench.program(name, f"echo '{name} is not for tests' >&2; exit 97")
        return bench

    def path(self, name: str) -> PurePosixPath:
        return PurePosixPath(self.root / "host" / name)

    def local(self, name: str) -> Path:
        path = self.root / "host" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def program(self, name: str, script: str) -> None:
        """A stand-in for a program."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    async def check(self, step: Step) -> Check:
        ctx, _ = self._step_context()
        check = await step.precheck(ctx)
        self.warnings += ctx.warnings
        return check

    async def run(self, step: Step) -> Values | None:
        ctx, connector = self._step_context()
        connector.begin(f"{self.run_id}.0.1")
        try:
            return await step.run(ctx)
        finally:
            connector.end()
            self.warnings += ctx.warnings

    async def reach(self, step: Step) -> None:
        """Unsatisfied, run, satisfied; satisfied again at no cost but reading."""
        assert (await self.check(step)).satisfied is False
        await self.run(step)
        check = await self.check(step)
        assert check.satisfied, check.reason

    async def rollback(self, step: Step) -> None:
        assert isinstance(step, Reversible)
        ctx, connector = self._step_context()
        connector.begin(f"{self.run_id}.0.rollback")
        try:
            await step.rollback(ctx)
        finally:
            connector.end()
            self.warnings += ctx.warnings

    def _step_context(self) -> tuple[StepContext, UnitConnector]:
        connector = UnitConnector(self.connector, Transcript)
        return self.context.step_context("bench.steps.step", connector, self.run_id), connector


class FakedHost(HostRuntime):
    """A host with stand-ins for some groups of operations, through whatever connector it is reached."""

    groups: ClassVar[Mapping[str, Any]] = {}

    def through(self, connector: Connector) -> HostRuntime:
        return type(self)(self.host, connector, self.facts, self.runner)


def fake_host(bench: Bench, **groups: Any) -> Bench:
    """The bench with some groups of operations replaced."""
    old = bench.context.host_runtimes["n1"]

    def stand_in(group: Any) -> property:
        return property(lambda _: group)

    kind = type("Faked", (FakedHost,), {name: stand_in(group) for name, group in groups.items()})
    runtime = kind(old.host, old.connector, old.facts, old.runner)
    for name, group in groups.items():
        assert getattr(runtime.through(old.connector), name) is group, f"{name} would be the real one"
    return replace(bench, context=replace(bench.context, host_runtimes={"n1": runtime}))
