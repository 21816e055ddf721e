"""Data sent past asyncssh: every packet opens at the other end, within all limits; asyncssh's own fit in between."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_CHANNEL_WINDOW_ADJUST, MSG_IGNORE
from asyncssh.encryption import get_encryption
from asyncssh.packet import Byte, String, UInt32

from kubexm.connector import bulk

KEY, IV = os.urandom(32), os.urandom(4) + b"\xff" * 7 + b"\xfe"  # the counter runs over
GCM, CHACHA = b"aes256-gcm@openssh.com", b"chacha20-poly1305@openssh.com"
REMOTE, LOCAL = 7, 3


class Transport:
    """Takes `room` bytes, keeps the rest as a socket's transport does, and says so."""

    def __init__(self) -> None:
        self.taken = bytearray()
        self.held: list[bytes | memoryview] = []
        self.room = 1 << 30
        self.writes = 0
        self.protocol: Any = None

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.held))

    def write(self, data: bytes | memoryview) -> None:
        self.writes += 1
        now = 0 if self.held else min(self.room, len(data))
        self.taken += data[:now]
        self.room -= now
        if now < len(data):
            self.held.append(data[now:])
            self.protocol.pause_writing()

    def drain(self, room: int) -> None:
        self.taken += b"".join(self.held)
        self.held, self.room = [], room
        self.protocol.resume_writing()


class Connection:
    """The part of asyncssh's connection that sends and receives packets, with its own code for both."""

    send_packet = asyncssh.SSHClientConnection.send_packet
    data_received = asyncssh.SSHClientConnection.data_received
    _recv_pkthdr: Any = asyncssh.SSHClientConnection._recv_pkthdr
    _recv_packet = asyncssh.SSHClientConnection._recv_packet
    _finish_recv_packet = asyncssh.SSHClientConnection._finish_recv_packet
    _recv_data = asyncssh.SSHClientConnection._recv_data
    _send = asyncssh.SSHClientConnection._send
    pause_writing = asyncssh.SSHClientConnection.pause_writing
    resume_writing = asyncssh.SSHClientConnection.resume_writing

    def __init__(self, cipher: bytes = GCM) -> None:
        self._auth_complete = self._kex_complete = self._auth_final = True
        self._kex = self._auth = self._compressor = self._decompressor = None
        self._strict_kex = self._auth_in_progress = False
        self._channels: dict[int, Any] = {}
        self._deferred_packets: list[Any] = []
        self._inpbuf = b""
        self._recv_blocksize = self._recv_macsize = self._send_blocksize = 16
        self._max_recv_pktlen = 1 << 18
        self._send_enchdrlen = 1
        self._send_seq, self._recv_seq = 0xFFFFFFFE, 0xFFFFFFFE
        self._rekey_bytes, self._rekey_bytes_sent, self._rekey_seconds, self._rekey_time = 1 << 30, 0, 0, 0.0
        self._send_encryption = get_encryption(cipher, KEY * 2 if cipher == CHACHA else KEY, IV)
        self._recv_encryption = get_encryption(GCM, KEY, IV)
        self._recv_handler = self._recv_pkthdr
        self._extra: dict[str, Any] = {}
        self._transport = Transport()
        self._transport.protocol = self
        self.resets = 0
        self.exchanges = 0

    def set_extra_info(self, **given: Any) -> None:
        self._extra.update(given)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra.get(name, default)

    def _reset_keepalive_timer(self) -> None:
        self.resets += 1

    def _send_kexinit(self) -> None:
        self._kex_complete = False
        self.exchanges += 1

    def log_sent_packet(self, *_: Any) -> None: ...


class Session:
    paused = False

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Channel(asyncssh.SSHClientChannel[bytes]):
    """A channel of asyncssh, open already."""

    def __init__(self, connection: Any, *, window: int = 1 << 30, limit: int = 32768, number: int = REMOTE) -> None:
        logger = SimpleNamespace(**dict.fromkeys(("debug1", "debug2", "info", "packet"), lambda *_, **__: None))
        self._logger: Any = logger
        self._conn: Any = connection
        self._session: Any = Session()
        self._extra = {}
        self._send_state = self._recv_state = "open"
        self._send_chan, self._send_window, self._send_pktsize = number, window, limit
        self._send_paused, self._send_buf, self._send_buf_len = False, [], 0
        self.set_encoding(None)
        self.set_write_buffer_limits(1 << 20)
        connection._channels[LOCAL] = self

    def log_sent_packet(self, *_: Any, **__: Any) -> None: ...


def opened(data: bytes | bytearray, *, number: int = REMOTE) -> list[bytes]:
    """The contents of data packets, as the host would read them; other packets are left out."""
    encryption, found, at, data = get_encryption(GCM, KEY, IV), [], 0, bytes(data)
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        assert length % 16 == 0
        end = at + 4 + length
        plain = encryption.decrypt_packet(0, data[at : at + 16], data[at + 16 : end], 4, data[end : end + 16])
        assert plain, "it does not open"
        assert 4 <= plain[0] < 20
        payload = plain[1 : -plain[0]]
        if payload[0] == MSG_CHANNEL_DATA:
            assert int.from_bytes(payload[1:5], "big") == number
            assert int.from_bytes(payload[5:9], "big") == len(payload) - 9
            found.append(payload[9:])
        at = end + 16
    return found


def made(cipher: bytes = GCM, **channel: Any) -> tuple[Any, Any, bulk.Lane]:
    connection: Any = Connection(cipher)
    bulk.prepare(connection)
    made = Channel(connection, **channel)
    return connection, made, bulk.Lane(made)


def adjustment(encryption: Any, more: int, *, number: int = LOCAL, kind: int = MSG_CHANNEL_WINDOW_ADJUST) -> bytes:
    plain = Byte(6) + Byte(kind) + UInt32(number) + UInt32(more) + bytes(6)
    return b"".join(encryption.encrypt_packet(0, UInt32(len(plain)), plain))


@pytest.mark.parametrize("limit", [1, 7, 1000, 32768, 1 << 20])
async def test_every_size_arrives_whole_and_within_the_packet_size(limit: int) -> None:
    for size in [*range(1, 40), 4095, 32767, 32768, 32769, 300_001][: None if limit > 7 else 40]:
        connection, channel, lane = made(limit=limit)
        data = os.urandom(size)
        lane.write(data)
        packets = opened(connection._transport.taken)
        assert b"".join(packets) == data
        assert max(map(len, packets)) <= min(limit, 32768)
        assert channel._send_window == (1 << 30) - size
        assert (channel._send_buf, channel._send_buf_len) == ([], 0)
        assert connection._send_seq == (0xFFFFFFFE + len(packets)) & 0xFFFFFFFF


async def test_packets_of_both_kinds_are_one_sequence() -> None:
    """What asyncssh sends in between opens too; and the same bytes count towards the next key exchange."""
    connection, _channel, lane = made()
    plain: Any = Connection()
    slow = Channel(plain)
    data = [os.urandom(size) for size in (5, 100_000, 1, 32768, 70_000)]
    for each in data:
        lane.write(each)
        slow.write(each)
        for one in (connection, plain):
            one.send_packet(MSG_IGNORE, String(b"between"))
    assert opened(connection._transport.taken) == opened(plain._transport.taken)
    ignored = connection._rekey_bytes_sent, plain._rekey_bytes_sent
    assert ignored[1] - ignored[0] == 16 * len(opened(plain._transport.taken))  # asyncssh's empty packets
    assert connection._transport.writes < plain._transport.writes / 2


async def test_the_window_is_kept_and_its_growth_taken_in() -> None:
    connection, channel, lane = made(window=50_000)
    data, host = os.urandom(200_000), get_encryption(GCM, KEY, IV)
    lane.write(data)
    assert sum(map(len, opened(connection._transport.taken))) == 50_000
    assert channel._send_buf_len == 150_000
    packets = b"".join(adjustment(host, more) for more in (1, 20_000, 39_999))
    connection.data_received(packets[:50])  # one and a half: asyncssh collects the rest
    connection.data_received(packets[50:])
    assert sum(map(len, opened(connection._transport.taken))) == 110_000
    connection.data_received(adjustment(host, 1 << 20) + adjustment(host, 5))
    assert b"".join(opened(connection._transport.taken)) == data
    assert channel._send_window == 50_000 + 1 + 20_000 + 39_999 + (1 << 20) + 5 - len(data)
    assert connection._recv_seq == (0xFFFFFFFE + 5) & 0xFFFFFFFF
    assert connection.resets >= 3


async def test_what_is_no_adjustment_is_asyncsshs() -> None:
    connection, channel, _lane = made(window=0)
    host, seen = get_encryption(GCM, KEY, IV), []
    channel.process_packet = lambda kind, *_: seen.append(kind) is None  # type: ignore[func-returns-value]
    channel.log_received_packet = lambda *_: None
    connection.data_received(adjustment(host, 10) + adjustment(host, 3, kind=MSG_CHANNEL_DATA) + adjustment(host, 9))
    assert seen == [MSG_CHANNEL_DATA, MSG_CHANNEL_WINDOW_ADJUST]  # from the first other one on
    assert channel._send_window == 10
    errors: list[Exception] = []
    connection._send_disconnect, connection._force_close = (lambda *_: None), errors.append
    damaged = bytearray(adjustment(host, 4))
    damaged[20] ^= 1
    connection.data_received(bytes(damaged))
    assert isinstance(errors[0], asyncssh.MACError)
    assert channel._send_window == 10


async def test_a_full_socket_holds_the_data_back_and_not_other_messages() -> None:
    connection, channel, lane = made()
    transport, data = connection._transport, os.urandom(3_000_000)
    transport.room = 200_000
    for start in range(0, len(data), 500_000):
        lane.write(memoryview(data)[start : start + 500_000])
    assert transport.get_write_buffer_size() < 140_000
    assert channel._session.paused, "whoever writes must wait"
    assert channel._send_buf_len > 2_500_000
    held = transport.get_write_buffer_size()
    connection.send_packet(MSG_IGNORE, String(b"urgent"))
    assert held < transport.get_write_buffer_size() < held + 100
    channel.write_eof()
    assert channel._send_state == "eof_pending"
    while channel._send_buf_len:
        transport.drain(random.randrange(1, 400_000))
        assert transport.get_write_buffer_size() < 140_000
    transport.drain(1 << 30)
    assert not channel._session.paused
    assert channel._send_state == "eof"
    assert b"".join(opened(transport.taken)) == data


async def test_channels_that_wait_for_the_socket_take_turns() -> None:
    connection, first, one = made()
    second = Channel(connection)
    two = bulk.Lane(second)
    transport = connection._transport
    transport.room = 0
    for lane in (one, two):
        lane.write(os.urandom(2_000_000))
    while first._send_buf_len and second._send_buf_len:
        transport.drain(100_000)
        assert abs(first._send_buf_len - second._send_buf_len) < 400_000
    first._send_buf, first._send_buf_len = [], 0  # it is gone
    while second._send_buf_len:
        transport.drain(100_000)
    assert not first._send_buf


async def test_what_the_caller_may_change_is_copied() -> None:
    connection, _, lane = made(window=0)
    data = bytearray(b"as it was")
    lane.write(memoryview(data))
    data[:] = b"otherwise"
    connection.data_received(adjustment(get_encryption(GCM, KEY, IV), 100))
    assert opened(connection._transport.taken) == [b"as it was"]


async def test_a_key_exchange_that_is_due_begins_and_the_rest_waits_for_it() -> None:
    connection, channel, lane = made()
    connection._rekey_bytes = 100_000
    data = os.urandom(400_000)
    lane.write(data)
    assert connection.exchanges == 1
    before = b"".join(opened(connection._transport.taken))
    assert 100_000 <= len(before) <= 100_000 + 32768, "no more than asyncssh would send"
    assert channel._send_buf_len == 0
    lane.write(b"later")  # asyncssh keeps all of it, in order
    rest = b"".join(args[0][8:] for _, args in connection._deferred_packets)
    assert before + rest == data + b"later"
    timed, _, lane = made()
    timed._rekey_seconds = 1
    lane.write(b"x")
    assert timed.exchanges == 1


@pytest.mark.parametrize("case", ["chacha", "compressed", "before login", "connection", "channel", "library"])
async def test_whatever_is_not_as_expected_is_sent_by_asyncssh(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "library":
        monkeypatch.setattr(bulk, "AESGCM", object)
    if case == "connection":
        monkeypatch.setattr(bulk, "_OF_CONNECTION", [*bulk._OF_CONNECTION, "_something_new"])
    if case == "channel":
        monkeypatch.setattr(bulk, "_OF_CHANNEL", [*bulk._OF_CHANNEL, "_something_new"])
    sent: list[bytes] = []
    connection, channel, lane = made(CHACHA if case == "chacha" else GCM)
    connection.send_packet = lambda _kind, payload, **_: sent.append(payload[8:])
    if case == "compressed":
        connection._compressor = object()
    if case == "before login":
        connection._auth_complete = False
    data = os.urandom(100_000)
    lane.write(memoryview(data))
    assert b"".join(sent) == data
    assert not connection._transport.taken
    assert channel._send_buf_len == 0
