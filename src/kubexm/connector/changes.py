"""Changes: each is done once, or known not to be done, or said to be unknown. Must not know how a host is reached.

A change is sent under the name of its receipt, and the host runs each name once. After a break the receipt is read;
only where the same directory of receipts holds none did the change never begin, and may be sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass, replace
from typing import Protocol

from kubexm.connector.base import Command, CommandResult, Receipt, ReceiptState, Stream
from kubexm.connector.deadlines import ASIDE_TIMEOUT
from kubexm.connector.link import LinkLost
from kubexm.connector.messages import ChangeMessage, Fence, Message, Slot, display, script_digest
from kubexm.connector.problems import Problems
from kubexm.connector.receipts import Trace, fetch, look, settle
from kubexm.connector.replies import KnownReceipt, LeaseNewer, ScratchFull
from kubexm.connector.shell import ShellInfo
from kubexm.errors import ConnectError, ConnectionLost, HostError, UsageError

__all__ = ["ChangeCarrier", "Changes"]

_TRIES = 4
_KILLED = 137
_SLACK = 1.0
"""Seconds by which a deadline on the host is later than here: it is kept there in whole seconds."""


class ChangeCarrier(Protocol):
    """What changes need of their connector."""

    @property
    def host(self) -> str: ...
    @property
    def lease(self) -> Fence | None: ...
    async def read(self, command: Command) -> CommandResult: ...
    async def run_once(self, slot: Slot, work: Slot | Message) -> CommandResult: ...
    async def online(self, *, again: bool) -> None: ...
    async def info(self, *, sudo: bool) -> ShellInfo: ...
    def check_held(self) -> None: ...
    async def check_fence_as_root(self, *, sudo: bool) -> None: ...
    def privileged(self, *, sudo: bool) -> bool: ...


@dataclass(slots=True)
class _Change:
    """A change on its way: under which name, and what became of the attempt to send it."""

    command: Command
    name: str
    host: ShellInfo | None = None
    """Where it was sent to, once it may have arrived there."""
    started: float = 0.0
    seen: Slot | None = None
    """The attempt whose output has been passed on already."""

    def pass_on(self, receipt: Receipt) -> None:
        """Gives the sink what it has not seen yet."""
        outputs: tuple[tuple[Stream, bytes], ...] = (("stdout", receipt.stdout), ("stderr", receipt.stderr))
        for stream, data in outputs:
            rest = data[self.seen.outputs[stream].size :] if self.seen else data
            if rest and self.command.sink is not None:
                self.command.sink(stream, rest)


class Changes:
    """The changes of one connector."""

    def __init__(self, carrier: ChangeCarrier) -> None:
        self._carrier = carrier
        self._problems = Problems(carrier.host)
        self._made = secrets.token_hex(4)
        self._count = 0

    async def execute(self, command: Command) -> CommandResult:
        """Does it; the result is its real one, however often the connection breaks."""
        change = _Change(command, command.receipt or self._name())
        try:
            for attempt in range(_TRIES):
                await self._carrier.online(again=attempt > 0)
                result = await self._once(change)
                if result is not None:
                    return result
        except asyncio.CancelledError:
            if change.host is not None:
                await self._abandon(change)
            raise
        except (ConnectError, ConnectionLost) as error:
            if change.host is None:
                raise
            raise self._problems.unknown(display(command), error.message) from None
        if change.host is None:
            raise self._problems.lost(f"the connection broke {_TRIES} times before the change could be sent")
        raise self._problems.unknown(display(command), f"it broke {_TRIES} times")

    def _name(self) -> str:
        self._count += 1
        return f"made-{self._made}-{self._count}"

    async def _once(self, change: _Change) -> CommandResult | None:
        """Settles it if it was sent before, else sends it; None if the connection broke."""
        command = change.command
        try:
            if change.host is not None:
                result = await self._after_break(change, change.host)
                if result is not None:
                    return result
            self._carrier.check_held()
            await self._carrier.check_fence_as_root(sudo=command.sudo)
            slot = Slot(command)
            fence = self._carrier.lease
            if fence is not None and not self._carrier.privileged(sudo=command.sudo):
                fence = replace(fence, path=None)  # the login user may not read the lease: root has compared it
            message = ChangeMessage(slot, change.name, fence, follow=command.long and command.sink is not None)
            try:
                result = await self._carrier.run_once(slot, message)
            except LinkLost:
                if slot.sent:
                    change.host, change.started, change.seen = slot.host, slot.started, slot
            else:
                if not result.ok and slot.host is not None and await self._ended(change, slot.host):
                    raise self._problems.ended(result.command)
                return result
        except KnownReceipt:
            return await self._known(change)
        except LeaseNewer as newer:
            raise self._problems.fenced(str(newer)) from None
        except ScratchFull:
            raise self._problems.no_room((await self._carrier.info(sudo=command.sudo)).directory) from None
        return None

    async def _ended(self, change: _Change, host: ShellInfo) -> bool:
        """True if the command did not fail by itself: another kubexm ended it."""

        async def read(question: Command) -> CommandResult:
            return await self._read(change, question)

        try:
            traces = await look(read, change.name, host.boot_id)
        except HostError:
            return False  # its exit code is known, which is more than nothing
        return any(trace.name == change.name and trace.state is ReceiptState.ENDED for trace in traces)

    async def _abandon(self, change: _Change) -> None:
        """Ends a change that nobody waits for any more, as far as its host can be reached."""
        with contextlib.suppress(HostError, TimeoutError):
            async with asyncio.timeout(ASIDE_TIMEOUT):
                await self._read(change, Command(script=f"k_end_receipt {change.name}", long=True))

    async def _read(self, change: _Change, question: Command) -> CommandResult:
        return await self._carrier.read(replace(question, sudo=change.command.sudo))

    async def _after_break(self, change: _Change, sent_to: ShellInfo) -> CommandResult | None:
        """How a change ended that was cut off; None if it never began, so that it may be sent again."""
        info = await self._carrier.info(sudo=change.command.sudo)
        if (info.boot_id, info.store) != (sent_to.boot_id, sent_to.store):
            why = "the host was restarted in between, and its receipts are gone"
            raise self._problems.unknown(display(change.command), why)
        trace = await self._settled(change, info)
        return None if trace is None else await self._from_receipt(change, trace, info)

    async def _known(self, change: _Change) -> CommandResult:
        """The result of a change that has been sent before, by us or by an earlier process."""
        info = change.host = await self._carrier.info(sudo=change.command.sudo)
        trace = await self._settled(change, info)
        if trace is None:
            raise self._problems.unknown(display(change.command), "its receipt was there and is gone")
        return await self._from_receipt(change, trace, info)

    async def _settled(self, change: _Change, info: ShellInfo) -> Trace | None:
        async def read(question: Command) -> CommandResult:
            return await self._read(change, question)

        now = next((trace for trace in await look(read, change.name, info.boot_id) if trace.name == change.name), None)
        if now is None:
            return None
        if now.digest and now.digest != script_digest(change.command):
            where = f"the receipt {change.name} on {self._carrier.host}"
            raise UsageError(f"{where} belongs to another command: receipts are used once")
        traces = await settle(read, change.name, info.boot_id, max(0.0, now.left))
        return next((trace for trace in traces if trace.name == change.name), None)

    async def _from_receipt(self, change: _Change, trace: Trace, info: ShellInfo) -> CommandResult:
        command = change.command
        ended = trace.state is ReceiptState.ENDED
        if not ended and (trace.state is not ReceiptState.EXITED or trace.exit_code is None):
            why = "it had begun, and neither it nor its exit code is there any more"
            raise self._problems.unknown(display(command), why)
        (receipt,) = await fetch(lambda question: self._read(change, question), info.directory, [trace])
        change.pass_on(receipt)
        result = CommandResult(
            host=self._carrier.host,
            command=display(command),
            exit_code=_KILLED if trace.exit_code is None else trace.exit_code,
            stdout=receipt.stdout,
            stderr=receipt.stderr,
            started=change.started or trace.started,
            ended=time.time(),
        )
        if ended and trace.left <= _SLACK:
            raise self._problems.overdue(command, result)
        if ended:
            raise self._problems.ended(result.command)
        return result
