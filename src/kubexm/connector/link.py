"""What the shell protocol needs from whatever reaches the host: channels that run a command. Must not know SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kubexm.connector.base import Stream

if TYPE_CHECKING:
    from kubexm.connector.streams import ByteStream

__all__ = ["Channel", "ChannelListener", "Link", "LinkLost", "SessionRefused", "StreamRefused"]


class LinkLost(Exception):
    """The channel, or the whole connection, ended before the reply was there. Never leaves the connector."""


class SessionRefused(Exception):
    """The host opens no further channel now (sshd's MaxSessions). Never leaves the connector."""


class StreamRefused(Exception):
    """The host opens no connection to that address. Never leaves the connector."""

    def __init__(self, reason: str, *, disabled: bool = False) -> None:
        """`disabled`: the host's sshd forbids it, whatever the address."""
        super().__init__(reason)
        self.disabled = disabled


class ChannelListener(Protocol):
    """Who hears what a channel brings, called from the event loop."""

    def received(self, stream: Stream, data: bytes) -> None:
        """The next piece of output."""
        ...

    def ended(self, exit_code: int | None) -> None:
        """The command is gone, or the connection; called once, last."""
        ...

    def pause_writing(self) -> None:
        """Enough is waiting to be sent."""
        ...

    def resume_writing(self) -> None:
        """More may be written."""
        ...


class Channel(Protocol):
    """A running command's three streams."""

    def write(self, data: bytes | memoryview) -> None:
        """Sends to its stdin."""
        ...

    def write_eof(self) -> None:
        """Ends its stdin."""
        ...

    def close(self) -> None:
        """Lets go of it; the command itself may go on."""
        ...


class Link(Protocol):
    """The connection to one host, as often re-established as it takes."""

    @property
    def host(self) -> str:
        """The host's name, for messages."""
        ...

    @property
    def root(self) -> bool:
        """True if commands run as root without sudo."""
        ...

    @property
    def may_sudo(self) -> bool:
        """False if every command runs as the login user, whatever it asks for."""
        ...

    @property
    def sudo_password(self) -> str | None:
        """What sudo is told if it asks."""
        ...

    @property
    def store(self) -> str:
        """Where receipts go; empty: decided on the host."""
        ...

    @property
    def broken(self) -> bool:
        """True if it was connected, is not any more, and nobody asked for that."""
        ...

    @property
    def most_channels(self) -> int:
        """How many channels may be open at once, as far as is known; shrinks when the host refuses one."""
        ...

    async def connect(self) -> None:
        """Connects, if that is not done yet; raises ConnectError."""
        ...

    async def open(self, command: str, listener: ChannelListener, first: bytes = b"") -> Channel:
        """Starts a command and writes `first` to it; raises LinkLost or SessionRefused."""
        ...

    async def open_stream(self, address: str, port: int) -> ByteStream:
        """A TCP connection that the host opens; raises LinkLost or StreamRefused."""
        ...

    def sibling(self) -> Link:
        """A further connection to the same host, for when this one has no channel left."""
        ...

    async def close(self) -> None:
        """Ends the connection."""
        ...
