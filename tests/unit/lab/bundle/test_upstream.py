"""Trying download sites: one that answers, one that hangs, one that refuses, one that is not there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubexm.lab.bundle import upstream
from kubexm.lab.bundle.upstream import Site, probe, sites


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[str]:
    """A server on 127.0.0.1 that gives this answer to everybody, or none at all."""
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await done.wait()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        done.set()


def http(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def test_sites_that_answer_can_be_used() -> None:
    async with server(http("200 OK")) as files, server(http("401 Unauthorized")) as registry:
        named = [Site(host="files", url=f"{files}/x.sha256"), Site(host="registry", url=f"{registry}/v2/")]
        assert await probe(named, trust_env=False) == ""


async def test_a_site_that_does_not_is_named_with_the_reason() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with server(None) as hanging, server(http("403 Forbidden")) as proxy, server(http("200 OK")) as good:
            named = [
                Site(host="hangs", url=hanging),
                Site(host="forbids", url=proxy),
                Site(host="answers", url=good),
                Site(host="is-closed", url=closed),
                Site(host="forbids-too", url=proxy),
            ]
            found = (await probe(named, seconds=0.5, trust_env=False)).split("; ")
    assert found[0] == "hangs: no answer within 0.5 s"
    assert found[1] == "forbids, forbids-too: HTTP 403", "the same reason is given once"
    assert found[2].startswith("is-closed: no connection: ")
    assert len(found) == 3


@pytest.mark.parametrize("version", ["v1.34.4", "v1.36.4"])
def test_every_site_a_bundle_comes_from_is_tried_once(version: str) -> None:
    named = {site.host: site.url for site in sites(version, "amd64")}
    assert {"dl.k8s.io", "github.com", "registry.k8s.io", "registry-1.docker.io"} <= named.keys()
    assert named["registry.k8s.io"] == "https://registry.k8s.io/v2/"
    assert named["dl.k8s.io"].endswith(".sha256")
    assert "get.helm.sh" not in named, "no cluster needs helm"


def test_what_was_downloaded_is_found_again(tmp_path: Path) -> None:
    assert upstream.downloaded("v1.34.4", "amd64", tmp_path) is None
    place = upstream.place("v1.34.4", "amd64", tmp_path)
    assert place.parent == tmp_path / "bundles", "where a lab looks for the bundle made last"
    place.mkdir(parents=True)
    assert upstream.downloaded("v1.34.4", "amd64", tmp_path) == place
    assert upstream.downloaded("v1.36.4", "amd64", tmp_path) is None
