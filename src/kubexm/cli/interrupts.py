"""Ctrl-C as a run understands it: once to finish what runs and start nothing, twice to stop now."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kubexm.events import Event, EventKind

__all__ = ["Interrupts"]

_ASKED = "finishing what runs, starting nothing; press Ctrl-C again to stop now"
_STOPPING = "stopping now: ending what runs on the hosts"
_LEAVING = "leaving; what still runs on the hosts is settled by `kubexm runs resume`"


class _Cancellable(Protocol):
    def cancel(self) -> None: ...


class Interrupts:
    """Turns signals into calls of `Cancellation.cancel`. Before a run has begun, the first signal ends the command."""

    def __init__(self, cancellation: _Cancellable, say: Callable[[str], None], *, leaving: str = _LEAVING) -> None:
        self._cancellation = cancellation
        self._say = say
        self._leaving = leaving
        self.begun = False
        """True once the run has begun."""
        self._asked = 0
        self._task: asyncio.Task[object] | None = None

    def begin(self) -> None:
        """Hears that something runs on a host from now on."""
        self.begun = True

    def on_event(self, event: Event) -> None:
        """Watches for the run to begin."""
        self.begun |= event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Signals come here while the current task runs this block."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        handlers = {signal.SIGINT: self.interrupt, signal.SIGTERM: self.terminate, signal.SIGHUP: self.terminate}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            del handlers[signal.SIGHUP]  # started by nohup
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def interrupt(self) -> None:
        """Somebody pressed Ctrl-C."""
        self._asked += 1
        if not self.begun or self._asked > 2:
            self._leave()
            return
        self._say(_ASKED if self._asked == 1 else _STOPPING)
        self._cancellation.cancel()

    def terminate(self) -> None:
        """Somebody wants this process to end: like pressing Ctrl-C twice."""
        if not self.begun or self._asked >= 2:
            self._asked = 2
            self._leave()
            return
        self._say(_STOPPING)
        while self._asked < 2:
            self._asked += 1
            self._cancellation.cancel()

    def _leave(self) -> None:
        if self.begun:
            self._say(self._leaving)
        if self._task is not None:
            self._task.cancel()
