"""Plain commands, for what has no operation of its own. Must not guess what a command means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import CHANGE_TIMEOUT, READ_TIMEOUT, Command, CommandResult, OutputSink, shell
from kubexm.redact import Secret
from kubexm.runner.base import Operations

__all__ = ["Commands"]

_PATH = 'PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; export PATH\n'

Words = str | tuple[str | PurePosixPath | int, ...] | list[str | PurePosixPath | int]
"""A command: shell text as it is, or words that are quoted here."""


@dataclass(frozen=True, slots=True)
class Commands(Operations):
    """Runs commands: `read` and `succeeds` promise to change nothing, `run` may change the host."""

    async def run(
        self,
        command: Words,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str | Secret] | None = None,
        within: float = CHANGE_TIMEOUT,
        sudo: bool = True,
        check: bool = True,
        long: bool = False,
        display: str = "",
        told: str = "",
        sink: OutputSink | None = None,
        hint: str = "",
    ) -> CommandResult:
        """Runs a command that changes something; raises CommandError unless it exits with 0 or `check` is off."""
        result = await self.connector.execute(
            Command(
                script=_PATH + _text(command),
                changes=True,
                stdin=stdin,
                env=env or {},
                timeout=within,
                sudo=sudo,
                long=long,
                display=display or _text(command),
                told=told,
                sink=sink,
            )
        )
        return self._checked(result, hint=hint) if check else result

    async def read(
        self,
        command: Words,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str | Secret] | None = None,
        within: float = READ_TIMEOUT,
        sudo: bool = True,
        check: bool = True,
        long: bool = False,
        display: str = "",
        hint: str = "",
    ) -> CommandResult:
        """Runs a command that only reads: it may be sent together with others, and again after a broken connection."""
        result = await self.connector.execute(
            Command(
                script=_PATH + _text(command),
                stdin=stdin,
                env=env or {},
                timeout=within,
                sudo=sudo,
                long=long,
                display=display or _text(command),
            )
        )
        return self._checked(result, hint=hint) if check else result

    async def succeeds(self, command: Words, *, within: float = READ_TIMEOUT, sudo: bool = True) -> bool:
        """True if this reading command exits with 0."""
        return (await self.read(command, within=within, sudo=sudo, check=False)).ok


def _text(command: Words) -> str:
    return command if isinstance(command, str) else shell(*command)
