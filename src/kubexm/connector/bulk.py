"""Channel data at little cost: large files are sent past the slow parts of asyncssh. Must not know what is sent.

asyncssh copies the data of each packet some ten times and sets its cipher up anew for each. Where AES-GCM is in use,
packets are framed and sealed here instead, several for one write to the socket, and the host's window adjustments are
taken in without ceremony. All state stays asyncssh's own and in step, so that any packet may go either way. Whatever is
out of the ordinary (other ciphers, a key exchange that runs or is due, an asyncssh that keeps its state otherwise) is
left to asyncssh. Unlike asyncssh this heeds the transport: what the socket does not take stays in the channel's buffer,
so that memory is bounded and other messages do not queue behind a whole window of data.
"""

from __future__ import annotations

import os
import time
from collections import deque
from struct import Struct
from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_CHANNEL_WINDOW_ADJUST
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Lane", "prepare"]

_AT_ONCE = 4
"""Packets in one write to the socket."""
_LARGEST = 32 * 1024
"""Data in one packet, even if the host would take more."""
_BLOCK = 16
_LEAST = 4
_NOISE = _BLOCK + _LEAST
_TAG = 16
_LENGTH = Struct(">I")
_HEAD = Struct(">BBII")  # padding, kind, channel, size of the data, or by how much the window grows
_ADJUST = _LENGTH.pack(_BLOCK)
"""What a window adjustment begins with, as do other short packets."""
_NAME = "kubexm_wire"
_OF_CONNECTION = [
    "_auth_complete",
    "_auth_final",
    "_channels",
    "_compressor",
    "_decompressor",
    "_deferred_packets",
    "_inpbuf",
    "_kex_complete",
    "_recv_blocksize",
    "_recv_encryption",
    "_recv_handler",
    "_recv_macsize",
    "_recv_pkthdr",
    "_recv_seq",
    "_rekey_bytes",
    "_rekey_bytes_sent",
    "_rekey_seconds",
    "_rekey_time",
    "_reset_keepalive_timer",
    "_send",
    "_send_blocksize",
    "_send_enchdrlen",
    "_send_encryption",
    "_send_seq",
    "_transport",
    "data_received",
    "pause_writing",
    "resume_writing",
]
_OF_CHANNEL = [
    "_flush_send_buf",
    "_pause_resume_writing",
    "_recv_state",
    "_send_buf",
    "_send_buf_len",
    "_send_chan",
    "_send_pktsize",
    "_send_window",
]


class _Room:
    """Where packets are put together, used again and again: fresh memory costs more than what is done in it."""

    def __init__(self) -> None:
        most = _HEAD.size + _LARGEST + _NOISE
        self.plain = memoryview(bytearray(most))
        self.sealed = memoryview(bytearray(_AT_ONCE * (_LENGTH.size + most + _TAG)))


_ROOMS: list[_Room] = []


class _Key:
    """AES-GCM with asyncssh's key and counter of one direction, set up once instead of for each packet."""

    def __init__(self) -> None:
        self._of: Any = None
        self.cipher: Any = None
        self.aes: AESGCM | None = None

    def follow(self, encryption: Any) -> AESGCM | None:
        """The cipher as of now; None if it is another kind."""
        if encryption is not self._of:
            self._of, self.aes = encryption, None
            self.cipher = getattr(encryption, "_cipher", None)
            known = type(self.cipher).__name__ == "GCMCipher" and all(map(self.cipher.__dict__.get, ("_key", "_iv")))
            if known and hasattr(AESGCM, "encrypt_into"):
                self.aes = AESGCM(self.cipher._key)
        return self.aes


class _Wire:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._sending, self._receiving = _Key(), _Key()
        self._waiting: deque[Lane] = deque()
        self.choked = False
        """The socket takes no more for now."""
        self._pause, self._resume = connection.pause_writing, connection.resume_writing
        self._receive = connection.data_received
        connection.pause_writing, connection.resume_writing = self.pause_writing, self.resume_writing
        connection.data_received = self.data_received

    def pause_writing(self) -> None:
        self.choked = True
        self._pause()

    def resume_writing(self) -> None:
        self.choked = False
        self._resume()
        while self._waiting and not self.choked:
            self._waiting.popleft().flush()

    def wait(self, lane: Lane) -> None:
        """Has the lane flushed once the socket takes more; each in turn."""
        if lane not in self._waiting:
            self._waiting.append(lane)

    def usable(self) -> bool:
        """True if data may go past asyncssh right now."""
        state = self._connection
        return bool(
            state._kex_complete
            and state._auth_complete
            and state._transport is not None
            and not state._deferred_packets
            and not state._compressor
            and state._send_blocksize == _BLOCK
            and state._send_enchdrlen == 1
            and state._rekey_bytes_sent < state._rekey_bytes
            and not (state._rekey_seconds and time.monotonic() >= state._rekey_time)
            and self._sending.follow(state._send_encryption) is not None
        )

    def send(self, channel: Any) -> bool:
        """Sends some packets of what waits in a channel; False if it must go asyncssh's way."""
        state, cipher, aes = self._connection, self._sending.cipher, self._sending.aes
        waiting, number, limit = channel._send_buf, channel._send_chan, min(channel._send_pktsize, _LARGEST)
        if aes is None or number is None or limit <= 0 or waiting[0][1] is not None:
            return False
        transport, room = state._transport, _ROOMS.pop() if _ROOMS else _Room()
        plain, sealed, noise = room.plain, room.sealed, os.urandom(_AT_ONCE * _NOISE)
        window, quota = channel._send_window, state._rekey_bytes - state._rekey_bytes_sent
        fixed, count = cipher._iv[:4], int.from_bytes(cipher._iv[4:], "big")
        packets = data_sent = sent = at = 0
        while waiting and window > data_sent and sent < quota and packets < _AT_ONCE:
            data, kind = waiting[0]
            if kind is not None:
                break
            size = min(len(data), limit, window - data_sent)
            if size < len(data):
                data = memoryview(data)
                waiting[0] = (data[size:], None)
                data = data[:size]
            else:
                del waiting[0]
            filled = _HEAD.size + size
            padding = -filled % _BLOCK
            if padding < _LEAST:
                padding += _BLOCK
            length = filled + padding
            begin, end = _LENGTH.pack(length), at + _LENGTH.size + length + _TAG
            _HEAD.pack_into(plain, 0, padding, MSG_CHANNEL_DATA, number, size)
            plain[_HEAD.size : filled] = data
            plain[filled:length] = noise[packets * _NOISE : packets * _NOISE + padding]
            sealed[at : at + _LENGTH.size] = begin
            nonce = fixed + count.to_bytes(8, "big")
            aes.encrypt_into(nonce, plain[:length], begin, sealed[at + _LENGTH.size : end])
            count = (count + 1) & 0xFFFFFFFFFFFFFFFF
            packets += 1
            data_sent += size
            sent += length
            at = end
        cipher._iv = fixed + count.to_bytes(8, "big")
        state._send_seq = (state._send_seq + packets) & 0xFFFFFFFF
        state._rekey_bytes_sent += sent
        channel._send_window -= data_sent
        channel._send_buf_len -= data_sent
        state._send(sealed[:at])
        if not transport.get_write_buffer_size():
            _ROOMS.append(room)  # else the transport may still hold it
        return True

    def data_received(self, data: bytes, datatype: Any = None) -> None:
        taken = self._take_adjustments(data) if datatype is None else 0
        if taken < len(data):
            self._receive(data[taken:] if taken else data, datatype)

    def _take_adjustments(self, data: bytes) -> int:
        """Widens windows by what adjustments the data begins with; how much of it that was."""
        state = self._connection
        if (
            not data.startswith(_ADJUST)
            or state._inpbuf
            or state._recv_handler != state._recv_pkthdr
            or not state._auth_complete
            or state._transport is None
            or state._decompressor
            or state._recv_blocksize != _BLOCK
            or state._recv_macsize != _TAG
            or (aes := self._receiving.follow(state._recv_encryption)) is None
        ):
            return 0
        cipher, whole, at = self._receiving.cipher, len(_ADJUST) + _BLOCK + _TAG, 0
        widened = {}
        while len(data) - at >= whole and data.startswith(_ADJUST, at):
            try:
                plain = aes.decrypt(cipher._iv, data[at + len(_ADJUST) : at + whole], _ADJUST)
            except InvalidTag:
                break  # asyncssh comes to the same end, and says so
            padding, kind, number, more = _HEAD.unpack_from(plain)
            channel = state._channels.get(number)
            if (
                kind != MSG_CHANNEL_WINDOW_ADJUST
                or padding != _BLOCK - _HEAD.size
                or channel is None
                or channel._recv_state not in {"open", "eof_pending", "eof"}
            ):
                break
            count = (int.from_bytes(cipher._iv[4:], "big") + 1) & 0xFFFFFFFFFFFFFFFF
            cipher._iv = cipher._iv[:4] + count.to_bytes(8, "big")
            state._recv_seq = (state._recv_seq + 1) & 0xFFFFFFFF
            channel._send_window += more
            widened[number] = channel
            at += whole
        if at:
            state._auth_final = True
            state._reset_keepalive_timer()
        for channel in widened.values():
            channel._flush_send_buf()
        return at


class Lane:
    """One channel of bytes: `write` takes what is asyncssh's to take, for less."""

    def __init__(self, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        inside: Any = channel
        self._channel = inside
        self._wire: _Wire | None = channel.get_extra_info(_NAME)
        if channel.get_encoding()[0] is not None or not all(hasattr(channel, name) for name in _OF_CHANNEL):
            self._wire = None
        if self._wire is not None:
            self._flush = inside._flush_send_buf
            inside._flush_send_buf = self.flush

    def write(self, data: bytes | memoryview) -> None:
        """Sends it, or keeps it until the host and the socket take it; the channel must be open."""
        if self._wire is None or not data:
            self._channel.write(data)
            return
        view = memoryview(data)
        # what waits may wait for long: only what cannot change is not copied
        self._channel._send_buf.append((view if view.readonly else memoryview(bytes(view)), None))
        self._channel._send_buf_len += len(view)
        self.flush()

    def flush(self) -> None:
        """Sends as much of what waits as the host and the socket take."""
        channel, wire = self._channel, self._wire
        assert wire is not None
        while channel._send_buf and channel._send_window > 0:
            usable = wire.usable()
            if usable and wire.choked:
                wire.wait(self)
                channel._pause_resume_writing()
                return
            if not usable or not wire.send(channel):
                channel._send_buf[:] = [(bytearray(data), kind) for data, kind in channel._send_buf]
                break
        self._flush()


def prepare(connection: asyncssh.SSHClientConnection) -> None:
    """Makes lanes of a connection fast, if this asyncssh is one we know; to be called as soon as it is made."""
    if all(hasattr(connection, name) for name in _OF_CONNECTION):
        connection.set_extra_info(**{_NAME: _Wire(connection)})
