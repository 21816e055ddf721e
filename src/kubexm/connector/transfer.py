"""Files to and from a host, through its shells: whole or not at all. Must not know how the host is reached.

Small files travel inside one message. Large ones are streamed into a temporary file beside their target, from where an
earlier attempt stopped; then checked by sha256, given mode and owner, synced and renamed. Each leaves a receipt before
it begins. The fence is compared once that is there, and again before the file is renamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shlex
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import Protocol

from kubexm.connector.base import Command, CommandResult, Stream, Upload, shell
from kubexm.connector.link import LinkLost
from kubexm.connector.messages import Fence, Message, Slot, StreamMessage, UploadMessage, display
from kubexm.connector.problems import Problems
from kubexm.connector.shell import ShellInfo
from kubexm.connector.turns import Turn, Turns
from kubexm.errors import TransferError, UsageError, telling_lines

__all__ = ["Carrier", "Digests", "Transfer"]

_SMALL = 64 * 1024
_CHUNK = 256 * 1024
_TRIES = 4
_DAMAGED = "its sha256 on the host is not that of the source"
_AT_ONCE = 2
"""Large files on their way to one host: side by side they would all arrive last. The second fills the pauses of the
first."""
_ASIDE = 60.0
"""Seconds an upload that has begun stands aside in all for more urgent ones."""
_SLOWEST = 128 * 1024
"""Bytes a second: what is slower than this counts as hung."""


class Carrier(Protocol):
    """What a transfer needs of its connector."""

    @property
    def host(self) -> str: ...
    @property
    def lease(self) -> Fence | None: ...
    async def read(self, command: Command) -> CommandResult: ...
    async def execute(self, command: Command) -> CommandResult: ...
    async def run_once(self, slot: Slot, work: Slot | Message) -> CommandResult: ...
    async def online(self, *, again: bool) -> None: ...
    def check_held(self) -> None: ...
    async def check_fence_as_root(self, *, sudo: bool) -> None: ...
    async def info(self, *, sudo: bool) -> ShellInfo: ...
    def privileged(self, *, sudo: bool) -> bool: ...


class Digests:
    """The sha256 of local files, each computed once however many hosts it goes to."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], asyncio.Task[str]] = {}

    async def of(self, path: Path) -> str:
        """The file's sha256; computed anew once it has changed."""
        stat = await asyncio.to_thread(path.stat)
        key = (str(path), stat.st_size, stat.st_mtime_ns)
        task = self._known.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._known[key] = asyncio.get_running_loop().create_task(asyncio.to_thread(_sha256, path))
        return await asyncio.shield(task)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Way:
    """The turns of an upload, among those to its host and among all; what is more urgent may go first."""

    def __init__(self, here: Turn, there: Turn) -> None:
        self._here = here
        self._there = there
        self._given = 0.0

    async def give(self) -> None:
        """Stands aside while something more urgent waits; not for so long that the host gives the upload up."""
        while self._given < _ASIDE and (self._here.outdone or self._there.outdone):
            since = time.monotonic()
            self._there.give()
            if self._here.outdone:
                self._here.give()
            await self._here.take()
            await self._there.take()
            self._given += time.monotonic() - since


class Transfer:
    """Uploads and downloads of one connector."""

    def __init__(self, carrier: Carrier, digests: Digests, sending: Turns | None = None) -> None:
        self._carrier = carrier
        self._digests = digests
        self._turns = Turns(_AT_ONCE)
        self._sending = sending or Turns(_AT_ONCE)
        """Shared by all hosts: what is needed first leaves this machine first."""

    async def upload(self, upload: Upload, *, fenced: bool = True) -> bool:
        """Puts the file there; False if content, mode and owner were so already."""
        source = upload.source
        if not upload.path.is_absolute():
            raise UsageError(f"{upload.path}: the path on a host must begin with /")
        if isinstance(source, bytes):
            digest, size = upload.sha256 or hashlib.sha256(source).hexdigest(), len(source)
        else:
            try:
                size = (await asyncio.to_thread(source.stat)).st_size
                digest = upload.sha256 or await self._digests.of(source)
            except OSError as error:
                raise self._failed(upload.path, f"{source} cannot be read: {error.strerror}") from None
        if fenced:
            self._carrier.check_held()
            await self._carrier.check_fence_as_root(sudo=upload.sudo)
        place = self._place(upload, digest, self._carrier.lease if fenced else None)
        if size <= _SMALL:
            content = source if isinstance(source, bytes) else await asyncio.to_thread(source.read_bytes)
            return await self._put(upload, content, place)
        return await self._send(upload, size, place)

    def _place(self, upload: Upload, digest: str, lease: Fence | None) -> list[str]:
        owned = self._carrier.privileged(sudo=upload.sudo)
        # The login user may not read the lease: root has compared it beforehand.
        return [
            str(upload.path),
            f"{upload.mode:o}",
            upload.owner if owned else "",
            upload.group if owned else "",
            digest,
            str(lease.path) if lease and lease.path and owned else "",
            str(lease.token) if lease else "",
            "" if upload.durable else "lazy",
        ]

    async def _put(self, upload: Upload, content: bytes, place: list[str]) -> bool:
        words = ["k_put", str(len(content)), upload.receipt, _part(upload.path, place[4]), *place]
        command = Command(
            script=shell(*words), sudo=upload.sudo, stdin=content, timeout=120.0, display=f"upload of {upload.path}"
        )
        verdict = self._verdict(upload, await self._carrier.read(command))
        if verdict == "damaged":
            raise self._failed(upload.path, _DAMAGED)
        return verdict == "placed"

    def _verdict(self, upload: Upload, result: CommandResult) -> str:
        words = result.text.split()
        if not result.ok:
            raise self._failed(
                upload.path, " | ".join(telling_lines(result.error_text)) or f"exit code {result.exit_code}"
            )
        if words[:1] == ["fenced"]:
            raise Problems(self._carrier.host).fenced(words[1])
        return words[0] if words else ""

    async def _send(self, upload: Upload, size: int, place: list[str]) -> bool:
        part = _part(upload.path, place[4])
        why = ""
        best, tries, attempts = -1, 0, 0
        while tries < _TRIES:
            await self._carrier.online(again=best >= 0)
            state, offset = await self._state(upload, place, part, size)
            if state == "same":
                return best >= 0  # the reply to the attempt before may have been cut off
            attempts += 1
            receipt = upload.receipt and f"{upload.receipt}-{attempts}"
            tries = 1 if offset > best else tries + 1  # as long as more of it arrives each time, go on
            best = max(best, offset)
            if state == "mode":
                await self._adjust(upload, receipt, place)
                return True
            if offset > size:
                await self._carrier.read(Command(script=shell("rm", "-f", part), sudo=upload.sudo))
                offset = 0
            try:
                async with self._turns.turn(upload.urgency) as here, self._sending.turn(upload.urgency) as there:
                    if place[6]:
                        self._carrier.check_held()
                    verdict = await self._stream(upload, receipt, place, part, offset, size, _Way(here, there))
            except LinkLost:
                why = f"the connection broke {_TRIES} times"
                continue
            if verdict == "placed":
                return True
            if verdict == "damaged":
                if why == _DAMAGED:
                    break
                why = _DAMAGED
            else:
                why = "somebody else is writing the same file"
        raise self._failed(upload.path, why)

    async def _state(self, upload: Upload, place: list[str], part: str, size: int) -> tuple[str, int]:
        same = shell("k_same", *place[:5], size)
        size_of = f"stat -c %s {shlex.quote(part)} 2>/dev/null || echo 0"
        script = f"{same}; {shell('k_adopt', part)}; {size_of}; {shell('k_stale', part)}; :"
        result = await self._carrier.read(
            Command(script=script, sudo=upload.sudo, timeout=_patience(size), display=f"looking at {upload.path}")
        )
        state, offset = result.check().text.split()
        return state, int(offset)

    async def _adjust(self, upload: Upload, receipt: str, place: list[str]) -> None:
        script = shell("k_adjust", receipt, *place[:4], *place[5:7])
        self._verdict(upload, await self._carrier.read(Command(script=script, sudo=upload.sudo)))

    async def _stream(
        self, upload: Upload, receipt: str, place: list[str], part: str, offset: int, size: int, way: _Way
    ) -> str:
        command = Command(
            script="", sudo=upload.sudo, timeout=_patience(size), long=True, display=f"upload of {upload.path}"
        )
        slot = Slot(command)
        whole = "whole" if upload.proven and not offset else ""
        message = UploadMessage(slot, receipt=receipt, part=part, offset=offset, size=size, place=[*place, whole])
        feeding = asyncio.get_running_loop().create_task(self._feed(message, upload.source, offset, way))
        try:
            result = await self._carrier.run_once(slot, message)
        finally:
            feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError, LinkLost):
                await feeding
        return self._verdict(upload, result)

    async def _feed(self, message: UploadMessage, source: bytes | Path, offset: int, way: _Way) -> None:
        channel = await message.go
        async with contextlib.aclosing(_chunks(source, offset)) as chunks:
            async for chunk in chunks:
                view = memoryview(chunk)
                for start in range(0, len(view), _CHUNK):
                    await way.give()
                    await channel.write(view[start : start + _CHUNK])
        channel.write_eof()

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool) -> None:
        """Fetches a file, atomically, verified, mode 0600; goes on where it was cut off."""
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            stream = await asyncio.to_thread(_create, temporary)
            with stream:
                await self._fetch(path, stream, sudo=sudo)
            await asyncio.to_thread(os.replace, temporary, target)
        except OSError as error:
            raise self._failed(path, f"{target} cannot be written: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)

    async def _fetch(self, path: PurePosixPath, stream: BufferedRandom, *, sudo: bool) -> None:
        digest = ""
        for attempt in range(_TRIES):
            await self._carrier.online(again=attempt > 0)
            now = await self._digest_of(path, sudo=sudo)
            if now != digest:
                stream.seek(0)
                stream.truncate()
            digest = now
            try:
                await self._receive(path, stream, sudo=sudo)
            except LinkLost:
                continue
            if await asyncio.to_thread(_same, stream, digest):
                return
            digest = ""
        raise self._failed(path, "it changed, or was cut off, each time it was read")

    async def _digest_of(self, path: PurePosixPath, *, sudo: bool) -> str:
        file = shlex.quote(str(path))
        script = f'[ -f {file} ] && [ -r {file} ] || exit 66; k_sum {file} && echo "$k_digest"'
        command = Command(script=script, sudo=sudo, timeout=600.0, long=True, display=f"looking at {path}")
        result = await self._carrier.read(command)
        if result.exit_code == 66:
            raise self._failed(path, "there is no such file on the host, or it cannot be read")
        return result.check().text

    async def _receive(self, path: PurePosixPath, stream: BufferedRandom, *, sudo: bool) -> None:
        """Appends what is missing of the file."""
        problem: list[OSError] = []

        def take(source: Stream, data: bytes) -> None:
            try:
                if source == "stdout" and not problem:
                    stream.write(data)
            except OSError as error:
                problem.append(error)

        script = f"tail -c +{stream.tell() + 1} {shlex.quote(str(path))}"
        slot = Slot(Command(script=script, sudo=sudo, timeout=3600.0, sink=take, display=f"download of {path}"))
        result = await self._carrier.run_once(slot, StreamMessage(slot))
        if problem:
            raise problem[0]
        if not result.ok:
            raise self._failed(path, " | ".join(telling_lines(result.error_text)))

    async def with_stdin(self, command: Command) -> CommandResult:
        """Runs a command whose stdin is too much for a message: that becomes a file first, so that it is never half."""
        assert command.stdin is not None
        digest = hashlib.sha256(command.stdin).hexdigest()
        directory = (await self._carrier.info(sudo=command.sudo)).directory
        path = PurePosixPath(directory) / f"stdin-{digest[:16]}-{secrets.token_hex(4)}"
        upload = Upload(source=command.stdin, path=path, mode=0o600, sudo=command.sudo, sha256=digest)
        await self.upload(upload, fenced=False)
        script = f"exec <{shlex.quote(str(path))}\n{command.script}"
        try:
            return await self._carrier.execute(replace(command, script=script, stdin=None, display=display(command)))
        finally:
            await self._carrier.read(Command(script=shell("rm", "-f", path), sudo=command.sudo))

    def _failed(self, path: PurePosixPath, why: str) -> TransferError:
        hint = "look at the host's log and disk, then run it again: what arrived is kept and continued"
        if "No space left" in why or "quota" in why:
            hint = f"make room on the file system of {path.parent} on the host, then run it again"
        elif "No such file or directory" in why:
            hint = f"the directory {path.parent} must exist on the host"
        elif "Permission denied" in why or "not permitted" in why:
            hint = f"the user needs write access to {path.parent}; use sudo"
        return TransferError(f"{path}: {why}", host=self._carrier.host, hint=hint)


def _part(path: PurePosixPath, digest: str) -> str:
    """A temporary file that no other writer has, not even one of the same content."""
    return str(path.parent / f".kubexm-{path.name[:100]}-{digest[:16]}-{secrets.token_hex(4)}.part")


def _patience(size: int) -> float:
    return 120.0 + size / _SLOWEST


def _create(path: Path) -> BufferedRandom:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


def _same(stream: BufferedRandom, digest: str) -> bool:
    stream.flush()
    os.fsync(stream.fileno())
    stream.seek(0)
    return hashlib.file_digest(stream, "sha256").hexdigest() == digest


async def _chunks(source: bytes | Path, offset: int) -> AsyncGenerator[memoryview, None]:
    if isinstance(source, bytes):
        yield memoryview(source)[offset:]
        return
    with source.open("rb", buffering=0) as stream:
        while True:
            chunk = _cached(stream.fileno(), offset)
            if chunk is None:
                reading = asyncio.ensure_future(asyncio.to_thread(os.pread, stream.fileno(), _CHUNK, offset))
                try:
                    chunk = memoryview(await asyncio.shield(reading))
                except asyncio.CancelledError:
                    await asyncio.wait([reading])  # the thread still has the file in its hands
                    raise
            if not chunk:
                return
            offset += len(chunk)
            yield chunk


def _cached(file: int, offset: int) -> memoryview | None:
    """The next part of a file if the system has it in memory; None if it would take a disk, or cannot be told."""
    buffer = bytearray(_CHUNK)
    try:
        size = os.preadv(file, [buffer], offset, os.RWF_NOWAIT)
    except (OSError, AttributeError):  # another system, or another file system
        return None
    return memoryview(buffer).toreadonly()[:size]
