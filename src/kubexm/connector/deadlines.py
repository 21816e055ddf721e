"""Ends what runs too long or is wanted no more, with its whole process group. Must not know what was asked for.

A shell that is busy cannot be told to stop, and sshd ignores signals for root's shells: so a command is ended from
beside, through another shell, and where the host allows no second one, through another connection.
"""

from __future__ import annotations

import asyncio
import time

from kubexm.connector.base import Command, CommandResult
from kubexm.connector.link import Link, LinkLost, SessionRefused
from kubexm.connector.messages import ChangeMessage, Message, ReadBatch, Slot
from kubexm.connector.shell import Shell
from kubexm.connector.shells import Lane
from kubexm.errors import HostError

__all__ = ["ASIDE_TIMEOUT", "Deadlines"]

ASIDE_TIMEOUT = 10.0
_TRIES = 20


class Deadlines:
    """Watches over the commands of one host."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stops watching."""
        for task in list(self._tasks):
            task.cancel()

    def overdue(self, lane: Lane, shell: Shell, message: Message) -> None:
        """Hears that the time of one of the message's commands may be over."""
        task = asyncio.get_running_loop().create_task(self._look(lane, shell, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancelled(self, lane: Lane, slot: Slot) -> None:
        """Hears that nobody waits for this command any more."""
        slot.done.cancel()
        if lane.withdraw(slot):
            return
        shell = lane.shell_of(slot)
        message = shell.message if shell is not None else None
        # Reads that were sent along with it are still wanted: it ends with them, at the latest at its deadline.
        if shell is not None and message is not None and all(other.done.cancelled() for other in message.slots):
            await self._end(lane, shell, message)

    async def _look(self, lane: Lane, shell: Shell, message: Message) -> None:
        culprit, left = message.slots[0], 0.0
        if isinstance(message, ReadBatch):
            culprit, left = await self._culprit(lane, shell, message)
        if shell.message is not message:
            return
        if left > 0:
            lane.look_again(shell, message, left)
            return
        culprit.overdue = True
        if not isinstance(message, ChangeMessage) and not culprit.done.done():
            culprit.ended = time.time()
            culprit.done.set_result(culprit.result(self._link.host, 124))
        await self._end(lane, shell, message)

    async def _culprit(self, lane: Lane, shell: Shell, message: ReadBatch) -> tuple[Slot, float]:
        """Which of several reads is running, with what it has printed so far, and how much time it has left."""
        try:
            result = await self._aside(lane, shell.progress())
            first, _, printed = result.stdout.partition(b"\n")
            now, _, _, index, begun, _ = first.decode().split()
        except (HostError, LinkLost, TimeoutError, ValueError):
            return message.slots[0], 0.0
        slot = message.slots[int(index)]
        left = slot.command.timeout - (float(now) - float(begun)) if len(message.slots) > 1 else 0.0
        if left <= 0:
            slot.outputs["stdout"].write(printed)
            slot.outputs["stderr"].write(result.stderr)
        return slot, left

    async def _end(self, lane: Lane, shell: Shell, message: Message) -> None:
        """Ends the processes behind a message, whatever it takes."""
        if shell.info is None:
            return
        # Reads share their shell's process group, which goes with them; a change has one of its own.
        script = f"k_end {shell.info.group}"
        if isinstance(message, ChangeMessage):
            script = f"k_end_receipt {message.receipt}"
        else:
            message.single_use = True  # should it end by itself just now, the shell must not be in something else
        for _ in range(_TRIES):
            if shell.message is not message:
                return
            try:
                await self._aside(lane, script)
            except (HostError, LinkLost, TimeoutError):
                break  # no way to the host: its own deadline will do it
            if shell.message is message:
                await asyncio.sleep(0.1)  # it may only be about to begin
        if shell.message is message:
            shell.close()

    async def _aside(self, lane: Lane, script: str) -> CommandResult:
        """Runs a read beside whatever keeps the shells busy, over a connection of its own if need be."""
        slot = Slot(Command(script=script, timeout=ASIDE_TIMEOUT))
        slot.alone = True
        async with asyncio.timeout(ASIDE_TIMEOUT):
            if lane.idle_shell() is not None:
                lane.submit(slot)
                return await slot.done
            try:
                return await self._through(self._link, lane, slot)
            except SessionRefused:
                link = self._link.sibling()
                try:
                    await link.connect()
                    return await self._through(link, lane, slot)
                finally:
                    await link.close()

    async def _through(self, link: Link, lane: Lane, slot: Slot) -> CommandResult:
        shell = Shell(link, sudo=lane.sudo, changed=_ignore)
        try:
            await shell.start()
            shell.send(ReadBatch([slot]))
            return await slot.done
        finally:
            shell.close()


def _ignore(_: Shell) -> None:
    return None
