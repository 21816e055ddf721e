"""The contract every connector keeps, and the values that cross it. Must not know how a host is reached.

A connector is the only way to a host. It knows commands and files, nothing of what they mean. Reads may be coalesced
with other reads of the same tick; changes never are: each runs in a process group of its own, under a deadline kept on
the host, compared with the fence, and leaves a receipt there, so that its outcome can be settled after a broken
connection or by a later process.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol

from kubexm.errors import CommandError
from kubexm.redact import Redactor, Secret

if TYPE_CHECKING:
    from kubexm.connector.streams import Streams

__all__ = [
    "Command",
    "CommandResult",
    "Connector",
    "Host",
    "OutputSink",
    "Receipt",
    "ReceiptState",
    "Stream",
    "Upload",
    "shell",
]

Stream = Literal["stdout", "stderr"]
OutputSink = Callable[[Stream, bytes], None]

READ_TIMEOUT = 30.0
CHANGE_TIMEOUT = 600.0


def shell(*words: str | PurePosixPath | int) -> str:
    """The words as one command line for /bin/sh, each quoted."""
    return " ".join(shlex.quote(str(word)) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as the plan sees it: its name, addresses and roles, and nothing of how to log in."""

    name: str
    address: str
    internal_addresses: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    arch: str | None = None
    local: bool = False

    @property
    def internal_address(self) -> str:
        """The first address other hosts of the cluster use."""
        return self.internal_addresses[0] if self.internal_addresses else self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command for a host, as text for /bin/sh (build it with `shell`)."""

    script: str
    changes: bool = False
    """False: only reads, may be coalesced and repeated. True: never coalesced, never repeated, leaves a receipt."""
    sudo: bool = True
    """Run as root; no sudo is used where the login user is root already."""
    stdin: bytes | None = None
    timeout: float = READ_TIMEOUT
    """Seconds until the whole process group is ended, on the host itself."""
    long: bool = False
    """Expected to take seconds or to print much: gets a channel of its own, so that it holds up nothing."""
    receipt: str = ""
    """Name of the receipt under /run/kubexm ([A-Za-z0-9._-]+); the connector makes one up if empty and it changes."""
    sink: OutputSink | None = None
    """Called with each piece of output as it arrives, whole, also beyond what the result keeps."""
    display: str = ""
    """What to show instead of the script in errors and logs."""
    told: str = ""
    """What the log shows in place of its standard output, if it ends well: that is for whoever sent it, not to read."""
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    """Exported for the command; sent over stdin, never as arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command did; output beyond the connector's cap keeps its head and its tail."""

    host: str
    command: str
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    started: float = 0.0
    ended: float = 0.0
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """True if it exited with 0."""
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """stdout as text, without the last newline."""
        return self.stdout.decode(errors="replace").removesuffix("\n")

    @property
    def error_text(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")

    def check(self, *, redact: Redactor | None = None, hint: str = "") -> CommandResult:
        """Itself if it exited with 0, else a CommandError."""
        if self.ok:
            return self
        mask = redact or Redactor()
        raise CommandError(
            host=self.host,
            command=mask(self.command),
            exit_code=self.exit_code,
            stdout=mask(self.text),
            stderr=mask(self.error_text),
            hint=hint,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file to put on a host: atomic, with mode and owner, verified by sha256, skipped when already there."""

    source: bytes | Path
    path: PurePosixPath
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"
    sudo: bool = True
    sha256: str = ""
    """Of the source, where the caller knows it already."""
    urgency: float = 0.0
    """Large files take turns on their way to a host: the more urgent one goes first."""
    durable: bool = True
    """Waits until it is on the disk; what can be sent again need not, and is told apart after a power cut."""
    receipt: str = ""
    """Name of the receipt under /run/kubexm: whoever takes over sees that the upload is under way."""
    proven: bool = False
    """Whoever takes it out of its packing proves every byte: of what came in one piece the host computes no sum."""


class ReceiptState(Enum):
    """How far a changing command got, read from its receipt."""

    RUNNING = "running"
    EXITED = "exited"
    ENDED = "ended"
    """kubexm ended it before it was done: its deadline passed, its run was stopped, or another run took over."""
    LOST = "lost"
    """It had begun, and neither it nor its exit code is there any more: the host went down, or it was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a changing command left on its host."""

    name: str
    state: ReceiptState
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    started: float = 0.0


class Connector(Protocol):
    """The way to one host. All methods raise `kubexm.errors` only."""

    @property
    def host(self) -> str:
        """The host's name, for messages."""
        ...

    @property
    def streams(self) -> Streams:
        """Connections that the host opens for us."""
        ...

    async def connect(self) -> None:
        """Connects and logs in, if that is not done yet; raises ConnectError with a hint."""
        ...

    async def close(self) -> None:
        """Ends the connection; running commands go on until their deadline."""
        ...

    async def execute(self, command: Command) -> CommandResult:
        """Runs it, whatever its exit code.

        A read that was cut off is repeated on a new connection. A change that was cut off is settled through its
        receipt: the result is its real one, or OutcomeUnknown. Past its deadline: CommandTimeout. Cancelling the
        caller ends the whole process group on the host. A change refused by the fence raises FencedError.
        """
        ...

    async def upload(self, upload: Upload) -> bool:
        """Puts the file there; False if content, mode and owner were so already."""
        ...

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        """Fetches a file, atomically, verified, mode 0600."""
        ...

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        """The receipts whose names start so. Waits for running ones; those still running after `wait` are ended."""
        ...

    async def forget(self, prefix: str) -> None:
        """Removes the receipts whose names start so, of commands that have ended: nobody will ask for them again."""
        ...

    async def boot_id(self) -> str:
        """Of the host's current boot; receipts do not outlive it."""
        ...

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        """From now on changes are refused if `held` denies it, or if the host has seen a newer token.

        It has seen those of earlier changes, and that of the lease at `path` on a host which keeps one.
        """
        ...
