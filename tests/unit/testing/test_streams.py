"""Streams of an in-memory host."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath

import pytest

from kubexm.connector import ByteStream
from kubexm.errors import FencedError, ForwardingDisabled, StreamError
from kubexm.testing import MemoryConnector


async def shout(stream: ByteStream) -> None:
    while data := await stream.receive():
        await stream.send(data.upper())


async def test_a_stream_leads_to_the_server_that_was_named() -> None:
    host = MemoryConnector("n1").listen("127.0.0.1", 6443, shout)
    stream = await host.streams.open("127.0.0.1", 6443)
    await stream.send(b"hello")
    assert await stream.receive() == b"HELLO"
    await stream.aclose()
    with pytest.raises(BrokenPipeError):
        await stream.send(b"more")
    await host.close()


async def test_a_host_that_was_told_of_no_server_forwards_nothing_and_others_refuse() -> None:
    with pytest.raises(ForwardingDisabled):
        await MemoryConnector("n1").streams.open("127.0.0.1", 6443)
    host = MemoryConnector("n2").listen("127.0.0.1", 6443, shout)
    with pytest.raises(StreamError, match="Connection refused") as caught:
        await host.streams.open("127.0.0.1", 2379)
    assert not isinstance(caught.value, ForwardingDisabled)


async def test_a_server_that_stops_ends_its_connections_and_takes_no_more() -> None:
    host = MemoryConnector("n1").listen("127.0.0.1", 6443, shout)
    stream = await host.streams.open("127.0.0.1", 6443)
    await asyncio.sleep(0)
    host.streams.stop("127.0.0.1", 6443)
    assert await stream.receive() == b""
    with pytest.raises(StreamError, match="Connection refused"):
        await host.streams.open("127.0.0.1", 6443)


async def test_changes_over_streams_are_listed_and_compared_with_the_fence() -> None:
    host = MemoryConnector("n1", files={"/lease": "7 other"})
    async with host.streams.exchange("apply a", changes=True):
        pass
    async with host.streams.exchange("list b"):
        pass
    host.fence(PurePosixPath("/lease"), 6)
    with pytest.raises(FencedError):
        async with host.streams.exchange("apply c", changes=True):
            pass
    assert host.streams.changes == ["apply a"]
