"""One persistent sh on a host, as seen from here: opened, greeted, fed one message at a time.

Must not know who is waiting for replies, nor what to do when the channel breaks.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from kubexm.connector.base import Stream
from kubexm.connector.link import Channel, Link, LinkLost
from kubexm.connector.messages import ChangeMessage, Message, ReadBatch, UploadMessage
from kubexm.connector.replies import NOISE, Replies
from kubexm.errors import ConnectError, SudoError, telling_lines

__all__ = ["Shell", "ShellInfo"]

_START_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellInfo:
    """What a shell said about itself when it started."""

    uid: int
    directory: str
    store: str
    """Identifies the directory of receipts: another one means that earlier receipts are lost."""
    boot_id: str
    group: int
    """Its process group, which its reads belong to."""


@cache
def _host_half() -> bytes:
    text = resources.files("kubexm.connector").joinpath("host.sh").read_text()
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return "\n".join(lines).encode() + b"\n"


class Shell:
    """One sh. `send` takes a message when it is idle; the message's slots are filled as replies arrive."""

    def __init__(self, link: Link, *, sudo: bool, changed: Callable[[Shell], None]) -> None:
        self._link = link
        self._sudo = sudo
        self._changed = changed
        self._word = secrets.token_hex(8)
        self._replies = Replies(link.host, self._word, hello=self._said_hello, finished=self._finished, go=self._go)
        self._channel: Channel | None = None
        self._opened = False
        self._patience: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._let_go = False
        self._started = not sudo
        """False until the shell that calls sudo has reported: before that, whatever went wrong was not sudo."""
        self._ready: asyncio.Future[str] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._watched = False
        self._messages = 0
        self.greeted: asyncio.Future[ShellInfo] = asyncio.get_running_loop().create_future()
        self.info: ShellInfo | None = None
        self.dead = False

    @property
    def idle(self) -> bool:
        """True if it can take a message now; anything but reads only if it is greeted too."""
        return self._opened and self._replies.message is None and not self.dead

    @property
    def failure(self) -> BaseException | None:
        """Why it ended by itself before the host's half answered; None if it did answer, or was closed from here."""
        if not self.dead or (self._let_go and self._failure is None):
            return None
        return self.greeted.exception()

    @property
    def _started_mark(self) -> str:
        return f"kxs{self._word}"

    @property
    def message(self) -> Message | None:
        """What it is working on."""
        return self._replies.message

    def progress(self) -> str:
        """A script for another shell that tells what this one is doing, and what that has printed so far."""
        if self.info is None:
            return "exit 1"
        own = f"{self.info.directory}/.{self._word}"
        files = f"{own}.${{k_line%% *}}.$k_index"
        return (
            f"k_now; read -r k_line <{own}.run; echo $k_uptime $k_line; k_index=${{k_line#* * }}; "
            f"k_index=${{k_index%% *}}; head -c {NOISE} {files}.o; head -c {NOISE} {files}.e >&2"
        )

    async def open(self) -> None:
        """Opens the channel and sends the host's half; raises ConnectError, LinkLost or SessionRefused.

        Reads may follow at once. `greeted` tells when the host's half has answered.
        """
        half = f"k_mark={self._word} k_dir={self._link.store}\n".encode() + _host_half()
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                if self._sudo:
                    channel = await self._open_sudo()
                    channel.write(half)
                else:
                    self._channel = await self._link.open("exec /bin/sh", self, half)
        except TimeoutError:
            self.close()
            raise self._silent() from None
        except BaseException:
            self.close()
            raise
        self._opened = not self.dead
        self._patience = asyncio.get_running_loop().call_later(_START_TIMEOUT, self._give_up)

    async def start(self) -> ShellInfo:
        """Opens the shell and waits until the host's half has answered."""
        await self.open()
        return await asyncio.shield(self.greeted)

    async def _open_sudo(self) -> Channel:
        """Starts the shell under sudo. The password is sent only once sudo asks: else it would be run as a command."""
        prompt, ready = f"kxp{self._word}", f"kxr{self._word}"
        go = f'/bin/sh -c "echo {ready}; exec /bin/sh"'
        script = f'echo {self._started_mark}; [ "$(id -u)" != 0 ] || exec {go}; exec sudo -S -H -p {prompt} {go}'
        command = f"exec /bin/sh -c '{script}'"
        self._ready = asyncio.get_running_loop().create_future()
        channel = self._channel = await self._link.open(command, self)
        asked = False
        while await self._ready != "ready":
            password = self._link.sudo_password
            if asked or password is None:
                raise self._no_password(asked=asked)
            asked = True
            self._replies.noise.clear()
            self._ready = asyncio.get_running_loop().create_future()
            channel.write(password.encode() + b"\n")
        self._ready = None
        return channel

    def send(self, message: Message) -> None:
        """Starts on a message; the shell must be idle."""
        assert self.idle
        assert self._channel is not None
        assert self.info is not None or not isinstance(message, ChangeMessage)
        self._replies.begin(message)
        started, sent = time.time(), time.monotonic()
        for slot in message.slots:
            slot.sent, slot.started, slot.host = sent, started, self.info
        self._messages += 1
        text = message.text()
        # What is left behind by a client that dies must be ended by somebody. The first reads do without, to keep
        # connecting cheap; a first change sees to that itself.
        if not self._watched and (self._messages > 1 or not isinstance(message, ReadBatch | ChangeMessage)):
            self._watched = True
            text = b"k_watch\n" + text
        self._channel.write(text)

    async def write(self, data: bytes | memoryview) -> None:
        """Feeds raw bytes to a command that reads the channel, no faster than they are taken."""
        if self.dead or self._channel is None:
            raise LinkLost
        self._channel.write(data)
        if not self._writable.is_set():
            await self._writable.wait()

    def write_eof(self) -> None:
        """Ends what it reads."""
        if self._channel is not None and not self.dead:
            self._channel.write_eof()

    def close(self) -> None:
        """Lets go of the shell; it ends as soon as it reads the end of its input."""
        self._let_go = True
        if self._channel is not None:
            self._channel.close()
        self.ended(None)

    # what the channel brings

    def received(self, stream: Stream, data: bytes) -> None:
        if self._ready is None or self._ready.done():
            self._replies.feed(stream, data)
            return
        noise = self._replies.noise
        noise += data
        mark = f"{self._started_mark}\n".encode()
        if not self._started and mark in noise:
            self._started = True
            noise[:] = noise.replace(mark, b"")
        if f"kxr{self._word}\n".encode() in noise:
            noise.clear()
            self._ready.set_result("ready")
        elif f"kxp{self._word}".encode() in noise:
            self._ready.set_result("prompt")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def ended(self, exit_code: int | None) -> None:
        if self.dead:
            return
        self.dead = True
        self._writable.set()
        if self._patience is not None:
            self._patience.cancel()
        failure = self._failure or self._why_ended(exit_code)
        for waiter in (self._ready, self.greeted):
            if waiter is not None and not waiter.done():
                waiter.set_exception(failure)
                waiter.exception()  # nobody may be waiting any more
        message, self._replies.message = self._replies.message, None
        for slot in message.slots if message is not None else ():
            if not slot.done.done():
                slot.done.set_exception(failure)
        self._changed(self)

    def _go(self, message: UploadMessage) -> None:
        if not message.go.done():
            message.go.set_result(self)

    def _finished(self, message: Message) -> None:
        if message.single_use:
            self.close()
        else:
            self._changed(self)

    def _said_hello(self, words: list[str]) -> None:
        if self.info is not None:
            return
        # The line of the process holds "(name)", which may have spaces: count from behind it.
        process = " ".join(words[6:]).rpartition(") ")[2].split()
        info = ShellInfo(uid=int(words[1]), directory=words[2], store=words[3], boot_id=words[4], group=int(process[2]))
        if info.store == "-":
            self._failure = ConnectError(
                f"kubexm cannot keep its receipts in {info.directory}{self._said()}",
                host=self._link.host,
                hint=f"{info.directory} must be a writable directory that belongs to the user, with room in it",
            )
            self.close()
            return
        if words[5] != "-":
            self._failure = self._lacks(words[5].strip(",").split(","))
            self.close()
            return
        if self._patience is not None:
            self._patience.cancel()
        self.info = info
        self._replies.listening = True
        self._replies.noise.clear()
        self.greeted.set_result(info)
        self._changed(self)

    # what to say

    def _give_up(self) -> None:
        if self.info is None:
            self._failure = self._silent()
            self.close()

    def _said(self) -> str:
        lines = telling_lines(self._replies.noise.decode(errors="replace"))
        return ": " + " | ".join(lines) if lines else ""

    def _silent(self) -> ConnectError:
        return ConnectError(
            f"the shell on the host gave no sign within {_START_TIMEOUT:g} s{self._said()}",
            host=self._link.host,
            hint="look at what the login shell's start-up files do when there is no terminal",
        )

    def _lacks(self, tools: list[str]) -> ConnectError:
        packages = dict.fromkeys("util-linux" if tool == "setsid" else "coreutils" for tool in tools)
        return ConnectError(
            f"the host's {', '.join(tools)} cannot do what kubexm needs, or is not there",
            host=self._link.host,
            hint=f"install {' and '.join(packages)} on the host: BusyBox's programs lack options that kubexm uses",
        )

    def _no_password(self, *, asked: bool) -> SudoError:
        if asked:
            return SudoError(
                "sudo refused the password",
                host=self._link.host,
                hint="check sudoPassword of this host in cluster.yaml",
            )
        return SudoError(
            "sudo asks for a password, and none is given",
            host=self._link.host,
            hint="set sudoPassword for this host (env:NAME, file:path or prompt), or allow sudo without one",
        )

    def _why_ended(self, exit_code: int | None) -> Exception:
        if exit_code is None or self.info is not None:
            return LinkLost()
        said = self._said()
        if not self._started or self._ready is None:
            return ConnectError(
                f"the login succeeded, but the session ended before a shell started (exit code {exit_code}){said}",
                host=self._link.host,
                hint="commands run in /bin/sh: give the user a login shell other than nologin or false, and remove "
                "ForceCommand in sshd_config or command= in authorized_keys",
            )
        hint = "the login user must be allowed to run sudo /bin/sh; try it by hand on the host"
        if "not found" in said:
            hint = "install sudo on the host, or log in as root"
        elif "tty" in said or "terminal" in said:
            hint = "remove `Defaults requiretty` from the host's sudoers file"
        return SudoError(f"sudo did not start a shell{said}", host=self._link.host, hint=hint)
