"""A connector that records what it is asked and answers from a list: facts in, commands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import NoStreams
from kubexm.connector.base import Command, CommandResult, Receipt, Upload
from kubexm.runner import Facts

Answer = str | bytes | tuple[int, str, str]


@dataclass
class Recorder:
    """Answers commands in turn; what it was not told of succeeds with no output."""

    answers: list[Answer | Exception] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    boots: list[str | Exception] = field(default_factory=lambda: ["boot-1"])

    @property
    def host(self) -> str:
        return "n1"

    @property
    def script(self) -> str:
        """The last script."""
        return self.commands[-1].script

    @property
    def streams(self) -> NoStreams:
        return NoStreams(self.host)

    async def connect(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def execute(self, command: Command) -> CommandResult:
        self.commands.append(command)
        answer = self.answers.pop(0) if self.answers else ""
        if isinstance(answer, Exception):
            raise answer
        code, out, err = answer if isinstance(answer, tuple) else (0, answer, "")
        return CommandResult(
            host=self.host,
            command=command.display or command.script,
            exit_code=code,
            stdout=out.encode() if isinstance(out, str) else out,
            stderr=err.encode(),
        )

    async def upload(self, upload: Upload) -> bool:
        self.uploads.append(upload)
        return True

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        return None

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        return ()

    async def forget(self, prefix: str) -> None:
        return None

    async def boot_id(self) -> str:
        boot = self.boots.pop(0) if len(self.boots) > 1 else self.boots[0]
        if isinstance(boot, Exception):
            raise boot
        return boot

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        return None


@pytest.fixture
def recorder() -> Recorder:
    """A connector that records."""
    return Recorder()


@pytest.fixture
def assumed() -> Facts:
    """A typical host."""
    return Facts.assumed()


@pytest.fixture
def recorded() -> Callable[[str], str]:
    """The fact script's output on a host, as it was recorded."""
    return lambda name: (Path(__file__).parent / "hosts" / f"{name}.txt").read_text(encoding="utf-8")
