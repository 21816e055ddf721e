"""What every group of operations stands on: how one read and one change are sent. Must not know what they are for.

A group holds a connector and the host's facts and nothing else: no state, no memory of earlier calls. A read is one
command, so that the connector can coalesce it with others; a change is one command wherever that is possible, so that
it has one receipt and one outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

from kubexm.connector.base import CHANGE_TIMEOUT, READ_TIMEOUT, Command, CommandResult, Connector, shell
from kubexm.errors import CommandError
from kubexm.runner.facts import Facts
from kubexm.runner.hints import hint_for

__all__ = ["ABSENT", "CONFLICT", "STATE", "Operations", "library", "posix"]

STATE = PurePosixPath("/var/lib/kubexm")
"""Where kubexm keeps what it must remember on a host."""

ABSENT = 44
"""Exit code of our scripts: the thing asked for is not there."""
CONFLICT = 45
"""Exit code of our scripts: somebody changed the thing since it was read."""

PRELUDE = 'PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" LC_ALL=C; export PATH LC_ALL\n'
"""sudo and ssh leave out the sbin directories on some systems, and what we parse must be in no other language."""


@cache
def library(name: str) -> str:
    """A shell library of ours, without its comments."""
    text = (Path(__file__).parent / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return "\n".join(lines) + "\n"


def posix(path: str | PurePosixPath) -> PurePosixPath:
    """The path, if it is one we handle: absolute, without `..` and without line breaks."""
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or any(c in str(pure) for c in "\n\r\0"):
        raise ValueError(f"not a plain absolute path: {path!s}")
    return pure


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations on one host."""

    connector: Connector
    facts: Facts
    state: PurePosixPath = field(default=STATE, kw_only=True)

    async def _read(
        self,
        script: str,
        display: str,
        *,
        stdin: bytes | None = None,
        within: float = READ_TIMEOUT,
        long: bool = False,
    ) -> CommandResult:
        """One command that changes nothing, whatever its exit code."""
        command = Command(script=PRELUDE + script, stdin=stdin, timeout=within, long=long, display=display)
        return await self.connector.execute(command)

    async def _change(
        self,
        script: str,
        display: str,
        *,
        stdin: bytes | None = None,
        within: float = CHANGE_TIMEOUT,
        long: bool = False,
    ) -> CommandResult:
        """One changing command, whatever its exit code."""
        command = Command(
            script=PRELUDE + script, changes=True, stdin=stdin, timeout=within, long=long, display=display
        )
        return await self.connector.execute(command)

    def _root(self, keep: bool) -> str:
        """Where originals are kept; nothing if they are not to be."""
        return str(self.state / "originals") if keep else ""

    def _keeping(self, keep: bool, snapshot: PurePosixPath | None) -> str:
        """The shell library for paths, told where to keep how a path was before it is changed."""
        roots = [self._root(keep)] if keep else []
        roots += [str(posix(snapshot))] if snapshot is not None else []
        each_keep = " && ".join(f'kx_keep {shell(root)} "$1"' for root in roots) or ":"
        each_rooms = " && ".join(f'kx_rooms {shell(root)} file "$@"' for root in roots) or ":"
        each_wrote = " && ".join(f'kx_wrote {shell(root)} file "$1" "$2"' for root in roots) or ":"
        return (
            library("sum")
            + library("originals")
            + library("paths")
            + f"kx_rooms_each() {{ {each_rooms}; }}\nkx_keep_each() {{ {each_keep}; }}\n"
            + f"kx_wrote_each() {{ {each_wrote}; }}\n"
        )

    def _checked(self, result: CommandResult, *, message: str = "", hint: str = "") -> CommandResult:
        """The result if it succeeded, else an error that says what to do."""
        if result.ok:
            return result
        raise self._error(result, message=message, hint=hint)

    def _error(self, result: CommandResult, *, message: str = "", hint: str = "") -> CommandError:
        return CommandError(
            host=result.host,
            command=result.command,
            exit_code=result.exit_code,
            stdout=result.text,
            stderr=result.error_text,
            message=message,
            hint=hint or hint_for(result.error_text or result.text),
        )
