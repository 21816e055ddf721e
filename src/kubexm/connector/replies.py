"""Takes apart what a shell on a host prints: output, byte for byte, and marked lines between. Must not know channels.

Callback style, since this is the hot path. A marked line begins with a newline of its own and a random word that no
output can hold by accident; what stands before it is output of the command it speaks of.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kubexm.connector.base import Stream
from kubexm.connector.messages import ChangeMessage, Message, UploadMessage
from kubexm.connector.output import CappedOutput

__all__ = ["NOISE", "KnownReceipt", "LeaseNewer", "Replies", "ScratchFull"]

NOISE = 16 * 1024


class KnownReceipt(Exception):
    """The host has a receipt of this name already: the command was not run (again)."""


class LeaseNewer(Exception):
    """The lease on the host carries a newer token: the command was not run."""


class ScratchFull(Exception):
    """The host could not write what it needs to run a command safely: the command was not run, or not to be trusted."""


class Replies:
    """The replies of one shell. `begin` says which message the next ones belong to; its slots are filled."""

    __slots__ = (
        "_errors_of",
        "_finished",
        "_go",
        "_hello",
        "_host",
        "_left",
        "_mark",
        "_pending",
        "_segment",
        "_stderr_done",
        "_waiting",
        "listening",
        "message",
        "noise",
    )

    def __init__(
        self,
        host: str,
        word: str,
        *,
        hello: Callable[[list[str]], None],
        finished: Callable[[Message], None],
        go: Callable[[UploadMessage], None],
    ) -> None:
        self._host = host
        self._mark = b"\n" + word.encode() + b" "
        self._hello = hello
        self._finished = finished
        self._go = go
        self._pending: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._segment: CappedOutput | None = None
        self._left = 0
        self._errors_of = -1
        self._stderr_done = False
        self._waiting = False
        self.listening = False
        """False until the host's half has answered: what comes before that is a login shell's chatter."""
        self.message: Message | None = None
        self.noise = bytearray()
        """What belongs to no command, up to a limit."""

    def begin(self, message: Message) -> None:
        """From here on replies are those to this message."""
        self.message = message
        self._left = len(message.slots)
        self._segment = CappedOutput() if self._left > 1 else None
        self._errors_of = -1
        self._stderr_done = False
        self._waiting = False

    def feed(self, stream: Stream, data: bytes) -> None:
        """Takes the next piece, however it was cut."""
        pending = self._pending[stream]
        pending += data
        while True:
            at = pending.find(self._mark)
            size = at if at >= 0 else len(pending) - self._start_of_mark(pending)
            if size:
                self._output(stream, bytes(pending[:size]))
                del pending[:size]
            if at < 0:
                if pending == b"\n":
                    self._show_newline(stream)
                return
            end = pending.find(b"\n", len(self._mark))
            if end < 0:
                return
            words = pending[len(self._mark) : end].decode(errors="replace").split()
            del pending[: end + 1]
            if words:
                self._marked(words)

    def _start_of_mark(self, pending: bytearray) -> int:
        """How many of the last bytes may be the beginning of a marker."""
        at = pending.find(b"\n", max(0, len(pending) - len(self._mark) + 1))
        while at >= 0:
            if self._mark.startswith(pending[at:]):
                return len(pending) - at
            at = pending.find(b"\n", at + 1)
        return 0

    def _output(self, stream: Stream, data: bytes) -> None:
        message = self.message
        if message is None or not self.listening:
            self.noise += data[: max(0, NOISE - len(self.noise))]
        elif stream == "stderr":
            # Only a command that has the channel to itself prints here.
            if len(message.slots) == 1 and not self._stderr_done:
                message.slots[0].outputs["stderr"].write(data)
        elif self._errors_of >= 0:
            message.slots[self._errors_of].outputs["stderr"].write(data)
        elif self._segment is not None:
            self._segment.write(data)
        else:
            message.slots[0].outputs["stdout"].write(data)

    def _show_newline(self, stream: Stream) -> None:
        """The end of a line may also begin a marker, and waits to be known. Whoever follows what a change prints need
        not wait: should it be a marker, cut in two just there, an empty line too much is shown."""
        message = self.message
        if not isinstance(message, ChangeMessage) or not self.listening:
            return
        if self._stderr_done if stream == "stderr" else self._errors_of >= 0:
            return
        message.slots[0].outputs[stream].show_newline()

    def _marked(self, words: list[str]) -> None:
        kind, message = words[0], self.message
        if kind == "hello":
            self._hello(words)
        elif message is None:
            return
        elif kind == "r":
            self._exited(message, int(words[1]), int(words[2]), words[3])
        elif kind == "e":
            self._errors_of = -1
            self._finish(message, int(words[1]))
        elif kind == "f":
            self._stderr_done = True
            if self._waiting:
                self._finish(message, 0)
        elif kind == "g" and isinstance(message, UploadMessage):
            self._go(message)
        elif kind in ("s", "x"):
            self._refused(message, words)

    def _exited(self, message: Message, index: int, exit_code: int, errors: str) -> None:
        slot = message.slots[index]
        slot.exit_code = exit_code
        if self._segment is not None:
            slot.outputs["stdout"], self._segment = self._segment, CappedOutput()
        if errors == "e":
            self._errors_of = index
        elif errors == "f" and not self._stderr_done:
            self._waiting = True
        else:
            self._finish(message, index)

    def _finish(self, message: Message, index: int) -> None:
        slot = message.slots[index]
        assert slot.exit_code is not None
        slot.ended = time.time()
        if not slot.done.done():
            slot.done.set_result(slot.result(self._host, slot.exit_code))
        self._one_less(message)

    def _refused(self, message: Message, words: list[str]) -> None:
        error: Exception
        if words[0] == "s":
            index, error = int(words[1]), ScratchFull()
        elif words[1] == "known":
            index, error = 0, KnownReceipt()
        else:
            index, error = 0, LeaseNewer(words[2] if len(words) > 2 else "?")
        slot = message.slots[index]
        if not slot.done.done():
            slot.done.set_exception(error)
        self._one_less(message)

    def _one_less(self, message: Message) -> None:
        self._left -= 1
        if not self._left:
            self.message = None
            self._finished(message)
