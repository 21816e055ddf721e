"""What is sent to a shell on the host and how its reply is put together. Must not know how it gets there."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kubexm.connector.base import Command, CommandResult, Stream
from kubexm.connector.output import CappedOutput
from kubexm.errors import UsageError
from kubexm.redact import Secret

if TYPE_CHECKING:
    from kubexm.connector.shell import Shell, ShellInfo

__all__ = [
    "INLINE_STDIN",
    "ChangeMessage",
    "Fence",
    "Message",
    "ReadBatch",
    "Slot",
    "StreamMessage",
    "UploadMessage",
    "always",
    "display",
    "exports",
    "script_digest",
]

INLINE_STDIN = 64 * 1024
_TOGETHER = 16 * 1024
"""A read with more input than this is sent alone."""


def always() -> bool:
    """A lease that never expires."""
    return True


@dataclass(frozen=True, slots=True)
class Fence:
    """Where the lease stands, on a host that keeps one; which token is ours; whether our lease still holds."""

    path: PurePosixPath | None
    token: int
    held: Callable[[], bool] = always


def display(command: Command) -> str:
    """What errors and logs call it."""
    return command.display or command.script


def exports(env: Mapping[str, str | Secret]) -> str:
    """Shell text that exports these variables."""
    if not env:
        return ""
    words = []
    for name, value in env.items():
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"{name!r} is no name for an environment variable")
        text = value.reveal() if isinstance(value, Secret) else value
        words.append(f"{name}={shlex.quote(text)}")
    return "export " + " ".join(words)


def script_digest(command: Command) -> str:
    """Tells two scripts apart that use one receipt."""
    return hashlib.sha256(command.script.encode(errors="surrogateescape")).hexdigest()[:16]


def _input_line(stdin: bytes | None) -> str:
    if not stdin:
        return ""
    try:
        text = stdin.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f"k_input64 {base64.b64encode(stdin).decode()}\n"
    return f"k_input {shlex.quote(text)}\n"


class Slot:
    """The place of one command's reply."""

    __slots__ = (
        "alone",
        "command",
        "done",
        "ended",
        "exit_code",
        "exports",
        "host",
        "outputs",
        "overdue",
        "sent",
        "started",
    )

    def __init__(self, command: Command) -> None:
        self.command = command
        self.exports = exports(command.env)
        self.alone = command.sink is not None or len(command.stdin or b"") > _TOGETHER
        """Never sent together with others."""
        self.overdue = False
        """It was ended because its time was over."""
        self.sent = 0.0
        """By the monotonic clock: durations are never judged by a clock that somebody sets."""
        self.host: ShellInfo | None = None
        """What the shell it was sent to had said about its host."""
        self.started = 0.0
        self.ended = 0.0
        self.exit_code: int | None = None
        sink = command.sink
        self.outputs: dict[Stream, CappedOutput] = {
            "stdout": CappedOutput(None if sink is None else lambda data: sink("stdout", data)),
            "stderr": CappedOutput(None if sink is None else lambda data: sink("stderr", data)),
        }
        self.done: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()

    @property
    def long(self) -> bool:
        """True if it is expected to take a while."""
        return self.command.long

    @property
    def size(self) -> int:
        """About how much is sent for it."""
        return len(self.command.script) + len(self.command.stdin or b"")

    def result(self, host: str, exit_code: int) -> CommandResult:
        """What the command did, as far as it is known."""
        out, err = self.outputs["stdout"], self.outputs["stderr"]
        return CommandResult(
            host=host,
            command=display(self.command),
            exit_code=exit_code,
            stdout=out.value(),
            stderr=err.value(),
            started=self.started,
            ended=self.ended or time.time(),
            truncated=out.truncated or err.truncated,
        )


@dataclass(slots=True, eq=False)
class Message:
    """Some lines for a shell, and the slots their replies fill."""

    slots: Sequence[Slot]
    single_use: bool = False
    """The shell is closed afterwards: something may still write into its channel."""
    _lines: list[str] = field(default_factory=list)

    @property
    def long(self) -> bool:
        """True if it is expected to take a while."""
        return any(slot.long for slot in self.slots)

    def text(self) -> bytes:
        """What is sent."""
        return "".join(self._lines).encode(errors="surrogateescape")


class ReadBatch(Message):
    """Reads that were submitted together: one message, one reply each."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        Message.__init__(self, slots)
        for index, slot in enumerate(slots):
            command = slot.command
            words = ("k_read", str(index), str(int(command.timeout) + 1))
            self._lines += (
                _input_line(command.stdin),
                " ".join(words),
                f" {shlex.quote(slot.exports)} {shlex.quote(command.script)} .\n",
            )
        self._lines.append("k_flush\n")


class StreamMessage(Message):
    """One read whose output goes straight to the channel."""

    def __init__(self, slot: Slot) -> None:
        Message.__init__(self, (slot,), single_use=True)
        command = slot.command
        self._lines += (
            _input_line(command.stdin),
            f"k_stream {int(command.timeout) + 1} {shlex.quote(slot.exports)}",
            f" {shlex.quote(command.script)} .\n",
        )


class ChangeMessage(Message):
    """One change, with its receipt."""

    def __init__(self, slot: Slot, receipt: str, fence: Fence | None, *, follow: bool) -> None:
        Message.__init__(self, (slot,))
        self.receipt = receipt
        command = slot.command
        words = (
            receipt,
            str(int(command.timeout) + 1),
            script_digest(command),
            str(fence.path) if fence and fence.path else "",
            str(fence.token) if fence else "",
            "follow" if follow else "",
            slot.exports,
            command.script,
            ".",
        )
        self._lines += (
            _input_line(command.stdin),
            "k_change " + " ".join(shlex.quote(word) for word in words) + "\nk_flush\n",
        )


class UploadMessage(Message):
    """A file's content, fed to the channel once the host says go."""

    def __init__(self, slot: Slot, *, receipt: str, part: str, offset: int, size: int, place: Sequence[str]) -> None:
        Message.__init__(self, (slot,), single_use=True)
        words = (receipt, part, str(offset), str(size), str(int(slot.command.timeout) + 1), ".", *place)
        self._lines.append("k_upload " + " ".join(shlex.quote(word) for word in words) + "\n")
        self.go: asyncio.Future[Shell] = asyncio.get_running_loop().create_future()
