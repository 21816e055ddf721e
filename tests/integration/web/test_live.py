"""What the page shows while the way to the server is bad: everything, once, in the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from playwright.sync_api import expect

from kubexm.testing import TcpProxy
from tests.integration.web.conftest import OpenPage, Site

COUNTS = """() => {
    const counts = {};
    for (const each of document.querySelectorAll(".chips .chip")) {
        const [number, state] = each.textContent.split(" ");
        counts[state] = Number(number);
    }
    return counts;
}"""


class Way:
    """A way to the server that can be cut."""

    def __init__(self, loop: asyncio.AbstractEventLoop, proxy: TcpProxy) -> None:
        self._loop = loop
        self._proxy = proxy
        self.url = f"http://127.0.0.1:{proxy.port}"

    def _do(self, work: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(work()))
        return done.result(30)

    def cut(self) -> None:
        """Breaks every connection; new ones are taken."""
        self._do(self._proxy.cut)

    def stall(self) -> None:
        """Connections stay, and nothing comes through."""
        self._do(self._proxy.flowing.clear)

    def go_on(self) -> None:
        """It comes through again."""
        self._do(self._proxy.flowing.set)


@pytest.fixture
def way(site: Site) -> Iterator[Way]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = int(site.url.rpartition(":")[2])
    proxy = TcpProxy("127.0.0.1", port)
    asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(30)
    yield Way(loop, proxy)
    asyncio.run_coroutine_threadsafe(proxy.__aexit__(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


def test_a_run_is_told_whole_however_often_the_way_to_the_server_is_cut(
    site: Site, open_page: OpenPage, way: Way
) -> None:
    site.clean()
    site.register("shaky")
    task = site.client().post("/clusters/shaky/create", json={}).json()["id"]
    watched = open_page(f"#/tasks/{task}?tab=matrix", url=way.url)
    watched.expected += ["net::ERR", "Failed to fetch"]
    page = watched.page
    site.wait_on("n1", "test -e /run/try/waiting")
    expect(page.locator(".chips")).to_contain_text("1 running")
    way.cut()
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".chips")).to_contain_text("1 running")
    way.stall()
    way.cut()
    site.on("n1", "touch /run/try/go")
    assert site.ended(task)["state"] == "succeeded"
    assert page.evaluate(COUNTS) == {"succeeded": 6, "running": 1, "pending": 6}, "nothing has come through yet"
    way.go_on()
    way.cut()
    expect(page.locator(".figures .badge")).to_contain_text("succeeded")
    expect(page.locator(".chips .chip")).to_have_text(["13 succeeded"])
