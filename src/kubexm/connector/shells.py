"""The shells of one host: as many as are needed, as few as will do. Must not know what commands mean.

Reads that are submitted in the same tick become one message. A further shell is opened only when somebody has waited
a while for one, so that nothing is held up by a slow command, and a quiet host has a single channel. Where the host
allows fewer channels than wanted, everything goes through those it allows.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

from kubexm.connector.link import Link, LinkLost, SessionRefused
from kubexm.connector.messages import Message, ReadBatch, Slot
from kubexm.connector.shell import Shell, ShellInfo
from kubexm.errors import ConnectError

__all__ = ["Lane", "Shells"]

_PATIENCE = 0.05
_MOST_SHORT = 4
_SPARED = 2
_BATCH = 64
_BATCH_BYTES = 128 * 1024
_REFUSED_FOR = 30.0


class Shells:
    """Both lanes of a host, the user's and root's, which share the channels of one connection."""

    def __init__(self, link: Link, overdue: Callable[[Lane, Shell, Message], None]) -> None:
        self.link = link
        self.overdue = overdue
        self._lanes = {sudo: Lane(self, sudo=sudo) for sudo in (False, True)}

    def lane(self, *, sudo: bool) -> Lane:
        """Where commands of this kind go; root needs no second one."""
        return self._lanes[sudo and self.link.may_sudo and not self.link.root]

    @property
    def count(self) -> int:
        """How many shells there are, or are being opened."""
        return sum(lane.count for lane in self._lanes.values())

    @property
    def messages(self) -> int:
        """How many were sent, in all."""
        return sum(lane.messages for lane in self._lanes.values())

    def make_room(self, lane: Lane) -> bool:
        """Closes an idle shell of the other lane; False if there is none."""
        return any(other.drop_idle() for other in self._lanes.values() if other is not lane)

    def others(self, lane: Lane) -> int:
        """How many shells the other lane has."""
        return sum(other.count for other in self._lanes.values() if other is not lane)

    def room_wanted(self, lane: Lane) -> bool:
        """True if another lane has work and no shell at all."""
        return any(other.starving for other in self._lanes.values() if other is not lane)

    def close(self) -> None:
        """Lets go of all shells."""
        for lane in self._lanes.values():
            lane.close()


class Lane:
    """The shells of one user on a host, and what waits for them."""

    def __init__(self, shells: Shells, *, sudo: bool) -> None:
        self._shells = shells
        self.sudo = sudo
        self._live: list[Shell] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._queue: deque[Slot | Message] = deque()
        self._pump_due = False
        self._grow_timer: asyncio.TimerHandle | None = None
        self._timers: dict[Shell, asyncio.TimerHandle] = {}
        self.messages = 0
        """How many were sent, each a round trip."""

    @property
    def count(self) -> int:
        """Shells there are, or are being opened."""
        return len(self._live) + len(self._opening)

    @property
    def info(self) -> ShellInfo | None:
        """What a shell of the present connection said about its host; None if there is none."""
        return next((shell.info for shell in self._live if shell.info is not None), None)

    @property
    def starving(self) -> bool:
        """Work, and no shell to do it."""
        return bool(self._queue) and not self._live

    def submit(self, work: Slot | Message) -> None:
        """Sends it as soon as a shell is idle; slots of one tick go together."""
        self._queue.append(work)
        if not self._pump_due:
            self._pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def withdraw(self, slot: Slot) -> bool:
        """Takes it back if it was not sent yet."""
        for work in self._queue:
            if work is slot or (isinstance(work, Message) and slot in work.slots):
                self._queue.remove(work)
                return True
        return False

    def idle_shell(self) -> Shell | None:
        """One that could take a message now."""
        return next((shell for shell in self._live if shell.idle), None)

    def _fit_for(self, work: Slot | Message) -> Shell | None:
        """One that can take it now: what is no mere read waits until the host has said which receipts it has."""
        ready = [shell for shell in self._live if shell.idle]
        if isinstance(work, Message):
            ready = [shell for shell in ready if shell.info is not None]
        return ready[0] if ready else None

    def shell_of(self, slot: Slot) -> Shell | None:
        """The one that is working on it."""
        return next((s for s in self._live if s.message is not None and slot in s.message.slots), None)

    def drop_idle(self) -> bool:
        """Closes one idle shell; False if there is none."""
        shell = self.idle_shell()
        if shell is None:
            return False
        shell.close()
        return True

    def close(self) -> None:
        """Lets go of all shells; what waits is lost."""
        for task in self._opening:
            task.cancel()
        for shell in list(self._live):
            shell.close()
        self._fail(LinkLost())

    def _pump(self) -> None:
        self._pump_due = False
        while (work := self._eligible()) is not None:
            shell = self._fit_for(work)
            if shell is None:
                self._want_more(work)
                return
            message = self._take(work)
            self.messages += 1
            shell.send(message)
            self.look_again(shell, message, min(slot.command.timeout for slot in message.slots))

    def _eligible(self) -> Slot | Message | None:
        """What is next; what takes long must leave a channel for the rest."""
        busy = sum(shell.message is not None and shell.message.long for shell in self._live)
        full = busy >= max(1, self._shells.link.most_channels - _SPARED)
        return next((work for work in self._queue if not (full and work.long)), None)

    def _take(self, work: Slot | Message) -> Message:
        self._queue.remove(work)
        if isinstance(work, Message):
            return work
        slots = [work]
        if work.alone:
            return ReadBatch(slots)
        size = work.size
        for other in list(self._queue):
            if isinstance(other, Message) or other.alone:
                continue
            size += other.size
            if len(slots) == _BATCH or size > _BATCH_BYTES:
                break
            slots.append(other)
            self._queue.remove(other)
        return ReadBatch(slots)

    def look_again(self, shell: Shell, message: Message, seconds: float) -> None:
        """Has it looked at whether the message is overdue after this time."""
        self._timers[shell] = asyncio.get_running_loop().call_later(seconds, self._overdue, shell, message)

    def _overdue(self, shell: Shell, message: Message) -> None:
        if shell.message is message:
            self._shells.overdue(self, shell, message)

    def _changed(self, shell: Shell) -> None:
        """Hears of a shell that has answered, finished or ended."""
        if shell.message is None:
            timer = self._timers.pop(shell, None)
            if timer is not None:
                timer.cancel()
        if shell.dead and shell in self._live:
            self._live.remove(shell)
            # Another shell would end the same way, so what waits for one must not wait for the next.
            if shell.failure is not None and not self._live:
                self._fail(shell.failure)
        if shell.idle and not self._queue and self._shells.room_wanted(self):
            shell.close()
        if self._queue and not self._pump_due:
            self._pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _want_more(self, work: Slot | Message) -> None:
        if self._opening or self._grow_timer is not None or any(shell.info is None for shell in self._live):
            return
        if not self._live:
            self._open()
            return
        short = sum(not (shell.message is not None and shell.message.long) for shell in self._live)
        if self._shells.count < self._shells.link.most_channels and (work.long or short < _MOST_SHORT):
            # Those that are busy with something long will not be back soon.
            self._grow_timer = asyncio.get_running_loop().call_later(_PATIENCE if short else 0.0, self._grow)

    def _grow(self) -> None:
        self._grow_timer = None
        if self._queue and self.idle_shell() is None and not self._opening:
            self._open()

    def _open(self) -> None:
        task = asyncio.get_running_loop().create_task(self._start())
        self._opening.add(task)
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._live:
            self._fail(error)
        elif self._queue and not self._pump_due:
            self._pump()

    async def _start(self) -> None:
        deadline = time.monotonic() + _REFUSED_FOR
        wait = 0.05
        while True:
            shell = Shell(self._shells.link, sudo=self.sudo, changed=self._changed)
            try:
                await shell.open()
            except SessionRefused:
                if self._live:
                    return  # those that are there will do
                self._shells.make_room(self)
                if self._shells.others(self):
                    deadline = time.monotonic() + _REFUSED_FOR  # its turn comes when they are done
                if time.monotonic() > deadline:
                    raise ConnectError(
                        "sshd opens no session for commands",
                        host=self._shells.link.host,
                        hint="MaxSessions in the host's sshd_config must be at least 1",
                    ) from None
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
                wait = min(wait * 2, 1.0)
            else:
                if shell.failure is not None:
                    raise shell.failure
                self._live.append(shell)
                return

    def _fail(self, error: BaseException) -> None:
        queue, self._queue = self._queue, deque()
        for work in queue:
            for slot in (work,) if isinstance(work, Slot) else work.slots:
                if not slot.done.done():
                    slot.done.set_exception(error)
