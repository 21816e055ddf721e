"""A connector with no host behind it, for unit tests of whatever sits on top. Refuses what it was not told.

It keeps the whole contract of `kubexm.connector.Connector`: changes leave receipts and never run twice under one name,
the fence is compared, files have content, mode and owner. It knows no shell: each script it may be asked for is named
beforehand with `on`, and anything else raises `UnexpectedCommand`, which says what was asked and what is known.
Servers that streams lead to are named with `listen`; a host that was told of none forwards nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from kubexm.connector import Command, CommandResult, Receipt, ReceiptState, Upload
from kubexm.errors import CommandTimeout, FencedError, TransferError
from kubexm.testing.streams import MemoryStreams, Server

__all__ = ["MemoryConnector", "MemoryFile", "UnexpectedCommand"]

Output = str | bytes
Reply = CommandResult | Output | int | None
Callback = Callable[[Command], Reply | Awaitable[Reply]]
Script = str | re.Pattern[str]


class UnexpectedCommand(AssertionError):
    """A test asked for something the in-memory host was never told about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """A file on an in-memory host."""

    content: bytes
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"


@dataclass(slots=True, kw_only=True)
class _Answer:
    script: Script
    stdout: bytes
    stderr: bytes
    exit_code: int
    callback: Callback | None
    error: BaseException | None
    left: int | None

    def answers(self, command: Command) -> bool:
        if self.left == 0:
            return False
        if isinstance(self.script, str):
            return self.script == command.script
        return self.script.fullmatch(command.script) is not None

    def __str__(self) -> str:
        text = self.script if isinstance(self.script, str) else f"/{self.script.pattern}/"
        return text if self.left is None else f"{text} ({self.left} left)"


class MemoryConnector:
    """One in-memory host: commands answered as told, files kept in `files`, everything asked recorded in `commands`."""

    def __init__(
        self,
        host: str = "n1",
        *,
        answers: dict[str, Output] | None = None,
        files: dict[str, MemoryFile | Output] | None = None,
        boot_id: str = "boot-1",
    ) -> None:
        self._host = host
        self._boot_id = boot_id
        self._answers: list[_Answer] = []
        self._fence: tuple[PurePosixPath | None, int, Callable[[], bool]] | None = None
        self.commands: list[Command] = []
        """Every command that was executed, in order."""
        self.uploads: list[Upload] = []
        """Every upload that changed something, in order."""
        self.files: dict[PurePosixPath, MemoryFile] = {}
        self.receipts: dict[str, Receipt] = {}
        self.connected = False
        self._exited = asyncio.Event()
        self.streams = MemoryStreams(host, self._check_fence)
        """Connections to what was named with `listen`."""
        for script, stdout in (answers or {}).items():
            self.on(script, stdout=stdout)
        for path, content in (files or {}).items():
            self.put(path, content)

    @property
    def host(self) -> str:
        """The host's name."""
        return self._host

    @property
    def scripts(self) -> list[str]:
        """The text of every command that was executed, in order."""
        return [command.script for command in self.commands]

    def on(
        self,
        script: Script,
        *,
        stdout: Output = b"",
        stderr: Output = b"",
        exit_code: int = 0,
        callback: Callback | None = None,
        error: BaseException | None = None,
        times: int | None = None,
    ) -> Self:
        """From now on answers this script (the whole text, or a pattern for all of it) so; the newest answer wins.

        `callback` may return output, an exit code or a whole result; `error` is raised; `times` bounds the answer.
        """
        self._answers.append(
            _Answer(
                script=script,
                stdout=_bytes(stdout),
                stderr=_bytes(stderr),
                exit_code=exit_code,
                callback=callback,
                error=error,
                left=times,
            )
        )
        return self

    def listen(self, address: str, port: int, server: Server) -> Self:
        """From now on streams to this address lead to `server`, which is called with each connection."""
        self.streams.listen(address, port, server)
        return self

    def put(self, path: str | PurePosixPath, content: MemoryFile | Output) -> None:
        """Puts a file on the host, beside the connector."""
        file = content if isinstance(content, MemoryFile) else MemoryFile(content=_bytes(content))
        self.files[PurePosixPath(path)] = file

    def reboot(self, boot_id: str) -> None:
        """The host comes up anew: another boot id, and no receipts."""
        self._boot_id = boot_id
        self.receipts.clear()

    async def connect(self) -> None:
        """Always works."""
        self.connected = True

    async def close(self) -> None:
        """Always works; streams end."""
        await self.streams.aclose()
        self.connected = False

    async def execute(self, command: Command) -> CommandResult:
        """Answers as told by `on`; a change that has a receipt under this name is not run again."""
        known = self.receipts.get(command.receipt) if command.changes and command.receipt else None
        if known is not None and known.state is ReceiptState.EXITED:
            return self._result(command, known.stdout, known.stderr, known.exit_code or 0)
        if command.changes:
            self._check_fence()
        answer = self._find(command)
        self.commands.append(command)
        if answer.left is not None:
            answer.left -= 1
        name = command.receipt or f"memory-{len(self.commands)}"
        if command.changes:
            self.receipts[name] = Receipt(name=name, state=ReceiptState.RUNNING, started=time.time())
        result = await self._run(answer, command)
        if command.changes:
            self.receipts[name] = replace(
                self.receipts[name],
                state=ReceiptState.EXITED,
                exit_code=result.exit_code,
                stdout=result.stdout,
                stderr=result.stderr,
            )
            self._exited.set()
        if command.sink is not None:
            if result.stdout:
                command.sink("stdout", result.stdout)
            if result.stderr:
                command.sink("stderr", result.stderr)
        return result

    async def upload(self, upload: Upload) -> bool:
        """Keeps the file in `files`."""
        content = (
            upload.source if isinstance(upload.source, bytes) else await asyncio.to_thread(upload.source.read_bytes)
        )
        if upload.sha256 and upload.sha256 != hashlib.sha256(content).hexdigest():
            raise TransferError(f"{upload.path} did not arrive whole: its sha256 differs", host=self._host)
        file = MemoryFile(content=content, mode=upload.mode, owner=upload.owner, group=upload.group)
        if self.files.get(upload.path) == file:
            return False
        self._check_fence()
        self.files[upload.path] = file
        self.uploads.append(upload)
        return True

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        """Writes the in-memory file to `target`, mode 0600."""
        del sudo
        file = self.files.get(path)
        if file is None:
            raise TransferError(f"{path} does not exist", host=self._host)
        await asyncio.to_thread(_write_private, target, file.content)

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        """The receipts whose names start so; one still RUNNING after `wait` is ENDED."""
        try:
            async with asyncio.timeout(wait):
                while any(receipt.state is ReceiptState.RUNNING for receipt in self._starting(prefix)):
                    self._exited.clear()
                    await self._exited.wait()
        except TimeoutError:
            pass
        for receipt in self._starting(prefix):
            if receipt.state is ReceiptState.RUNNING:
                self.receipts[receipt.name] = replace(receipt, state=ReceiptState.ENDED)
        return tuple(self._starting(prefix))

    async def forget(self, prefix: str) -> None:
        """Drops the receipts whose names start so, except of what still runs."""
        for receipt in self._starting(prefix):
            if receipt.state is not ReceiptState.RUNNING:
                del self.receipts[receipt.name]

    async def boot_id(self) -> str:
        """As given, until `reboot`."""
        return self._boot_id

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        """Compares the token with the first word of the in-memory file at `path` before each change."""
        self._fence = None if token is None else (path, token, held or (lambda: True))

    def _starting(self, prefix: str) -> list[Receipt]:
        return [receipt for name, receipt in sorted(self.receipts.items()) if name.startswith(prefix)]

    def _find(self, command: Command) -> _Answer:
        for answer in reversed(self._answers):
            if answer.answers(command):
                return answer
        known = "\n".join(f"  {answer}" for answer in self._answers) or "  nothing"
        raise UnexpectedCommand(f"{self._host} was asked for:\n  {command.script}\nand knows only:\n{known}")

    async def _run(self, answer: _Answer, command: Command) -> CommandResult:
        if answer.error is not None:
            raise answer.error
        if answer.callback is None:
            return self._result(command, answer.stdout, answer.stderr, answer.exit_code)
        try:
            async with asyncio.timeout(command.timeout):
                reply = answer.callback(command)
                if inspect.isawaitable(reply):
                    reply = await reply
        except TimeoutError:
            raise CommandTimeout(
                host=self._host,
                command=command.display or command.script,
                exit_code=124,
                message=f"passed its deadline of {command.timeout:g} s and was ended",
            ) from None
        if isinstance(reply, CommandResult):
            return reply
        if isinstance(reply, int):
            return self._result(command, answer.stdout, answer.stderr, reply)
        return self._result(command, answer.stdout if reply is None else _bytes(reply), answer.stderr, answer.exit_code)

    def _result(self, command: Command, stdout: bytes, stderr: bytes, exit_code: int) -> CommandResult:
        now = time.time()
        return CommandResult(
            host=self._host,
            command=command.display or command.script,
            exit_code=exit_code,
            stdout=stdout,
            stderr=stderr,
            started=now,
            ended=now,
        )

    def _check_fence(self) -> None:
        if self._fence is None:
            return
        path, token, held = self._fence
        if not held():
            raise FencedError("the lease of this run expired", host=self._host)
        lease = self.files.get(path) if path is not None else None
        newest = lease.content.split(maxsplit=1) if lease is not None else []
        if newest and newest[0].isdigit() and int(newest[0]) > token:
            raise FencedError(f"a newer run (token {newest[0].decode()}) holds the lease", host=self._host)


def _bytes(value: Output) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _write_private(target: Path, content: bytes) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    target.chmod(0o600)
