"""What connectors to real hosts have in common: the contract, on top of shells. Must not know how to connect."""

from __future__ import annotations

import asyncio
import random
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from kubexm.connector.base import Command, CommandResult, Receipt, Upload, shell
from kubexm.connector.changes import Changes
from kubexm.connector.deadlines import Deadlines
from kubexm.connector.link import Link, LinkLost
from kubexm.connector.messages import INLINE_STDIN, Fence, Message, Slot, StreamMessage, always, display
from kubexm.connector.problems import Problems
from kubexm.connector.receipts import fetch, settle
from kubexm.connector.replies import ScratchFull
from kubexm.connector.shell import ShellInfo
from kubexm.connector.shells import Shells
from kubexm.connector.streams import HostStreams
from kubexm.connector.transfer import Digests, Transfer
from kubexm.connector.turns import Turns
from kubexm.errors import AuthenticationError, ConnectError, HostKeyError, SudoError, UsageError

__all__ = ["HostConnector"]

_TRIES = 4
_MOST_BUFFERED = 8 * 1024 * 1024
_FILE_LIMIT_SIGNAL = 128 + 25
_RECEIPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,180}")


class HostConnector:
    """The contract of `Connector` over any `Link`. The methods beyond it are for its own parts."""

    def __init__(
        self,
        link: Link,
        *,
        reconnect_for: float = 60.0,
        digests: Digests | None = None,
        sending: Turns | None = None,
    ) -> None:
        self._link = link
        self._reconnect_for = reconnect_for
        self._fence: Fence | None = None
        self._closed = False
        self._problems = Problems(link.host)
        self._deadlines = Deadlines(link)
        self._shells = Shells(link, self._deadlines.overdue)
        self._changes = Changes(self)
        self.streams = HostStreams(link, lambda again: self.online(again=again), self.check_fence)
        """Connections that the host opens for us."""
        self._transfer = Transfer(self, digests or Digests(), sending)
        self._waiting: dict[tuple[object, ...], Slot] = {}
        """Reads that are not on their way yet, by all that makes one what it is."""

    @property
    def host(self) -> str:
        """The host's name, for messages."""
        return self._link.host

    @property
    def round_trips(self) -> int:
        """How many messages the host has answered or is to answer, streams included; connecting not counted."""
        return self._shells.messages + self.streams.round_trips

    async def connect(self) -> None:
        """Connects and logs in, if that is not done yet."""
        self._closed = False
        await self._link.connect()

    async def close(self) -> None:
        """Ends the connection; running commands go on until their deadline."""
        self._closed = True
        await self.streams.aclose()
        self._shells.close()
        self._deadlines.close()
        await self._link.close()

    async def execute(self, command: Command) -> CommandResult:
        """Runs it, whatever its exit code. A change whose receipt's name was used before is not run again."""
        if "\0" in command.script:
            raise UsageError("a command cannot hold a NUL byte")
        if command.receipt and _RECEIPT.fullmatch(command.receipt) is None:
            raise UsageError(f"{command.receipt!r} is no name for a receipt: letters, digits, dot, dash and underscore")
        if command.stdin is not None and len(command.stdin) > INLINE_STDIN:
            return await self._transfer.with_stdin(command)
        if command.changes:
            return await self._changes.execute(command)
        return await self.read(command)

    async def upload(self, upload: Upload) -> bool:
        """Puts the file there; False if content, mode and owner were so already."""
        return await self._transfer.upload(upload)

    async def download(self, path: PurePosixPath, target: Path, *, sudo: bool = True) -> None:
        """Fetches a file, atomically, verified, mode 0600."""
        await self._transfer.download(path, target, sudo=sudo)

    async def settle(self, prefix: str, *, wait: float) -> tuple[Receipt, ...]:
        """The receipts whose names start so, root's and those of the login user."""
        found = await asyncio.gather(*(self._settle(prefix, wait, sudo=sudo) for sudo in self._lanes))
        return tuple(sorted((receipt for part in found for receipt in part), key=lambda receipt: receipt.name))

    async def forget(self, prefix: str) -> None:
        """Removes the receipts whose names start so, of commands that have ended: nobody will ask for them again."""
        for sudo in self._lanes:
            await self.read(Command(script=f"k_forget {shlex.quote(prefix)}", sudo=sudo, long=True))

    async def boot_id(self) -> str:
        """Of the host's current boot."""
        result = await self.read(Command(script="cat /proc/sys/kernel/random/boot_id"))
        return result.check().text

    def fence(self, path: PurePosixPath | None, token: int | None, held: Callable[[], bool] | None = None) -> None:
        """From now on changes are refused if `held` denies it, or if the host has seen a newer token."""
        self._fence = None if token is None else Fence(path, token, held or always)
        self.streams.compare_again()

    # for its own parts

    @property
    def lease(self) -> Fence | None:
        """The fence that is set."""
        return self._fence

    def check_held(self) -> None:
        """Raises FencedError if the lease of this run expired: somebody else may hold it by now."""
        if self._fence is not None and not self._fence.held():
            raise self._problems.expired()

    def privileged(self, *, sudo: bool) -> bool:
        """True if such commands run as root."""
        return self._link.root or (sudo and self._link.may_sudo)

    async def read(self, command: Command) -> CommandResult:
        """Runs it, again if it was cut off."""
        question = _question(command)
        streamed = command.sink is not None
        alone = command.long
        for attempt in range(_TRIES):
            await self.online(again=attempt > 0)
            same = self._waiting.get(question) if question is not None else None
            if same is not None and not same.sent and (answer := await _answer(same)) is not None:
                return replace(answer, command=display(command))
            slot = Slot(command)
            slot.alone = slot.alone or alone
            if question is not None:
                self._waiting[question] = slot
            try:
                result = await self.run_once(slot, StreamMessage(slot) if streamed else slot)
            except LinkLost:
                alone = True  # should it be the one that breaks things, it does so alone
                continue
            except ScratchFull:
                streamed = True
                continue
            finally:
                if question is not None and self._waiting.get(question) is slot:
                    del self._waiting[question]
            if streamed or _is_whole(slot, result):
                return result
            streamed = True  # too much to be buffered on the host; reads may be repeated
        raise self._problems.lost(f"the connection broke {_TRIES} times while reading")

    async def run_once(self, slot: Slot, work: Slot | Message) -> CommandResult:
        """Sends it over the connection as it is now; raises LinkLost if that breaks."""
        lane = self._shells.lane(sudo=slot.command.sudo)
        lane.submit(work)
        try:
            result = await slot.done
        except asyncio.CancelledError:
            await self._deadlines.cancelled(lane, slot)
            raise
        if slot.overdue:
            raise self._problems.overdue(slot.command, result)
        return result

    async def online(self, *, again: bool) -> None:
        """Connects; after a break with patience."""
        if self._closed:
            raise self._problems.lost("the connection was closed")
        if not again and not self._link.broken:
            await self._link.connect()
            return
        deadline = time.monotonic() + self._reconnect_for
        wait = 0.1
        while True:
            try:
                await self._link.connect()
            except (AuthenticationError, HostKeyError, SudoError):
                raise
            except ConnectError as error:
                if time.monotonic() + wait > deadline:
                    raise self._problems.lost(f"the connection broke and did not come back: {error.message}") from None
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
                wait = min(wait * 2, 5.0)
            else:
                return

    async def info(self, *, sudo: bool) -> ShellInfo:
        """What the host says about itself over the present connection."""
        lane = self._shells.lane(sudo=sudo)
        while (info := lane.info) is None:
            await self.read(Command(script=":", sudo=sudo))
        return info

    async def check_fence_as_root(self, *, sudo: bool) -> None:
        """The lease is root's: for a change as the login user it is compared beforehand."""
        if not self.privileged(sudo=sudo):
            await self.check_fence()

    async def check_fence(self) -> None:
        """Compares the token with the lease, for changes that no shell of ours makes; raises FencedError."""
        if self._fence is None:
            return
        self.check_held()
        words = shell("k_fenced", self._fence.path or "", self._fence.token)
        result = await self.read(Command(script=f'! {words} || printf %s "$k_token"'))
        if result.stdout:
            raise self._problems.fenced(result.text)

    @property
    def _lanes(self) -> tuple[bool, ...]:
        return (True, False) if self._link.may_sudo and not self._link.root else (True,)

    async def _settle(self, prefix: str, wait: float, *, sudo: bool) -> tuple[Receipt, ...]:
        async def read(command: Command) -> CommandResult:
            return await self.read(replace(command, sudo=sudo))

        info = await self.info(sudo=sudo)
        if self._fence is not None:
            # First the token, then the list: what an older run sends from now on is refused, the rest is in the list.
            await read(Command(script=shell("k_fenced", "", self._fence.token)))
        traces = await settle(read, prefix, info.boot_id, wait)
        return await fetch(read, info.directory, traces)


def _question(command: Command) -> tuple[object, ...] | None:
    """What makes two reads the same, so that one answer does for both; None if nobody else's answer will do."""
    if command.sink is not None or command.env:
        return None
    return (command.script, command.stdin, command.sudo, command.timeout, command.long)


async def _answer(slot: Slot) -> CommandResult | None:
    """What another who asked the same is told; None if that is no answer to go by."""
    await asyncio.wait([slot.done])
    if slot.done.cancelled() or slot.done.exception() is not None or slot.overdue:
        return None
    result = slot.done.result()
    return result if _is_whole(slot, result) else None


def _is_whole(slot: Slot, result: CommandResult) -> bool:
    """False if it printed more than a host keeps for a read."""
    size = max(output.size for output in slot.outputs.values())
    return size < _MOST_BUFFERED and result.exit_code != _FILE_LIMIT_SIGNAL
