"""Who may connect: a listening socket that counts connections, in all and for each address, and makes room.

Limits hold from accept on, so also for connections that never finish a TLS handshake or a request's head. Where there
are too many, the one that has been idle longest goes; busy ones stay, and who finds only those is turned away.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import os
import resource
import socket
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

__all__ = ["Connection", "ConnectionLimits", "Gate", "raise_descriptor_limit"]

_MOST_DESCRIPTORS = 65_536
_AT_ONCE = 100  # connections turned away before others on the event loop get their turn
_MOST_LEAVING = 16
_CLOSING = 5.0  # seconds
_LOG_EVERY = 60.0
_logger = logging.getLogger("kubexm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections there may be, and how long a request's head may take."""

    most: int = 2000
    each: int = 1000
    """For one address, or one /64 network of IPv6."""
    head_within: float = 10.0
    """Seconds from the connection, or the first byte of a further request, to the end of its head."""

    @classmethod
    def within(cls, descriptors: int, reserve: int, each: int) -> ConnectionLimits:
        """Limits that leave `reserve` file descriptors for everything else, and room for other addresses."""
        most = max(16, descriptors - reserve)
        return cls(most=most, each=max(8, min(each, most * 3 // 4)))


def raise_descriptor_limit() -> int:
    """Raises the soft limit on open files to the hard one, within reason; how many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class Connection(socket.socket):
    """One that was accepted. It begins in its request's head; the protocol says when it is busy and when it rests."""

    def __init__(self, gate: Gate, accepted: socket.socket, place: tuple[str, int]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.place = place
        self.address = _group(place[0])
        self.busy = False
        self.waits_for_head = True
        self.since = time.monotonic()
        self._gate: Gate | None = gate

    def begin(self) -> None:
        """A request is answered."""
        self.busy, self.waits_for_head = True, False

    def rest(self) -> None:
        """Nothing is under way."""
        self.busy, self.waits_for_head, self.since = False, False, time.monotonic()

    def head(self) -> None:
        """Part of a request's head has come."""
        if self.busy or not self.waits_for_head:
            self.busy, self.waits_for_head, self.since = False, True, time.monotonic()

    def drop(self) -> None:
        """Ends it: whoever reads from it finds its end, and closes it."""
        if self._gate is not None:
            self._gate.forget(self, leaving=True)
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes it, and no longer counts it."""
        if self._gate is not None:
            self._gate.forget(self)
            self._gate = None
        super().close()


class Gate(socket.socket):
    """A listening socket with limits."""

    def __init__(self, family: int, kind: int, protocol: int, limits: ConnectionLimits) -> None:
        super().__init__(family, kind, protocol)
        self.limits = limits
        self._open: dict[tuple[str, int], Connection] = {}
        self._of: Counter[str] = Counter()
        self._leaving: dict[Connection, float] = {}
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._logged = -_LOG_EVERY

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection there is room for."""
        for _ in range(_AT_ONCE):
            if self._waits_for_closing():
                break
            try:
                accepted, place = super().accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or self._spare is None:
                    raise
                self._turn_one_away()
                continue
            connection = Connection(self, accepted, place[:2])
            if self._has_room(connection):
                self._open[connection.place] = connection
                self._of[connection.address] += 1
                return connection, place
            connection.close()
        raise BlockingIOError  # the event loop comes back

    def close(self) -> None:
        """Stops listening."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()

    def connection(self, place: tuple[str, int]) -> Connection | None:
        """The connection from an address and port."""
        return self._open.get(place)

    def forget(self, connection: Connection, *, leaving: bool = False) -> None:
        """It is closed; or with `leaving` it is about to be."""
        if leaving:
            self._leaving[connection] = time.monotonic()
        else:
            self._leaving.pop(connection, None)
        if self._open.get(connection.place) is connection:
            del self._open[connection.place]
            self._of[connection.address] -= 1
            if not self._of[connection.address]:
                del self._of[connection.address]

    def sweep(self) -> None:
        """Drops connections whose request's head has taken too long."""
        begun_by = time.monotonic() - self.limits.head_within
        for each in list(self._open.values()):
            if each.waits_for_head and each.since < begun_by:
                each.drop()

    def _waits_for_closing(self) -> bool:
        """True while many were dropped that still have their descriptors: the event loop closes them first."""
        recent = time.monotonic() - _CLOSING
        return sum(dropped > recent for dropped in self._leaving.values()) >= _MOST_LEAVING

    def _has_room(self, new: Connection) -> bool:
        """True if it may come in; for that the one that is idle longest may have to go."""
        if self._of[new.address] >= self.limits.each:
            idle = [each for each in self._open.values() if not each.busy and each.address == new.address]
        elif len(self._open) >= self.limits.most:
            idle = [each for each in self._open.values() if not each.busy]
        else:
            return True
        if not idle:
            self._log("%d connections are open, %d of them from %s: no more are accepted", new)
            return False
        min(idle, key=lambda each: each.since).drop()
        return True

    def _turn_one_away(self) -> None:
        """Accepts with a descriptor kept for this, and closes at once: the event loop would try, and log, forever.

        Raises BlockingIOError if nobody is waiting: without descriptors accept reports EMFILE even then.
        """
        assert self._spare is not None
        os.close(self._spare)
        self._spare = None
        try:
            super().accept()[0].close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._log("no file descriptors are left: connections are refused (%d are open, %d from %s)", None)

    def _log(self, text: str, new: Connection | None) -> None:
        now = time.monotonic()
        if now - self._logged >= _LOG_EVERY:
            self._logged = now
            address = new.address if new is not None else ""
            _logger.warning(text, len(self._open), self._of[address], address or "unknown addresses")


def _group(address: str) -> str:
    """What counts as one: an address, or a /64 network of IPv6."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
