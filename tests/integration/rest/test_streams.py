"""Following: 200 at once for a whole run, one that stalls, some that come back; nothing missed, nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubexm.rest.state import ServerSettings
from tests.integration.rest.conftest import Running, StartServer, ended, registered, until
from tests.integration.rest.sse import Follower
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root


class TestMany:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(streams=300, streams_each=300, send_within=5.0, burst=10_000, rate=10_000.0)

    async def test_two_hundred_follow_a_whole_run_one_stalls_and_some_come_back(
        self, start: StartServer, places_url: str, root: Path
    ) -> None:
        running = await start(places_url)
        await registered(running, root, hosts=20, nodes=40)
        client = running.client("operator")
        task = (await client.post("/clusters/demo/create", json={})).json()["id"]
        path, token = f"/tasks/{task}/events", running.tokens["viewer"]
        stalled = Follower(running.url, path, token, small=True)
        await stalled.open()
        assert stalled.writer is not None
        # It reads no more from here on: its window fills up, then the server's buffers.
        stalled.writer.transport.pause_reading()  # type: ignore[attr-defined]
        steady = [Follower(running.url, path, token) for _ in range(179)]
        unsteady = [asyncio.create_task(_comes_back(running, path, token)) for _ in range(20)]
        assert all(await asyncio.gather(*(follower.count() for follower in steady)))
        again = await asyncio.gather(*unsteady)
        done = await ended(client, task)
        assert (done["state"], done["units"]) == ("succeeded", 800)
        expected = list(range(1, done["seq"] + 1))
        assert len(expected) > 1600
        assert all(follower.seen == expected for follower in steady)
        assert all(seen == expected for seen in again)
        server = running.server
        await until(lambda: server.streams.count == 0)
        assert server.metrics.dropped._value.get() == 1.0, "the one that stalled was dropped, and nobody else"
        assert server.tasks.followers.count == 0
        for follower in (stalled, *steady):
            follower.close()


async def _comes_back(running: Running, path: str, token: str) -> list[int]:
    """Goes away in the middle, again and again, and comes back with the last id."""
    seen: list[int] = []
    for most in (200, 1, 333, 50, 2**62):
        follower = Follower(running.url, path, token, last=seen[-1] if seen else None)
        over = await follower.count(most)
        follower.close()
        seen += follower.seen
        if over:
            break
    return seen


async def test_who_comes_late_hears_everything_and_who_heard_all_is_told_to_stop(
    running: Running, demo: str, root: Path
) -> None:
    client, token = running.client("operator"), running.tokens["viewer"]
    (root / "go").touch()
    task = (await client.post("/clusters/demo/create", json={})).json()["id"]
    done = await ended(client, task)
    late = await Follower(running.url, f"/tasks/{task}/events", token).all()
    assert [told.id for told in late if told.id is not None] == list(range(1, done["seq"] + 1))
    assert [told.kind for told in late if told.id is None] == ["task", "task", "end"]
    history = (await client.get(f"/tasks/{task}/history")).json()
    assert [told.data for told in late if told.id is not None] == history, "live or later, the same is told"
    rest = Follower(running.url, f"/tasks/{task}/events", token, last=3)
    await rest.all()
    assert rest.seen == list(range(4, done["seq"] + 1))
    cut = Follower(running.url, f"/tasks/{task}/events", token, last=done["seq"])
    assert [told.kind for told in await cut.all()] == ["task", "task", "end"], "all events, but not yet the end"
    over = Follower(running.url, f"/tasks/{task}/events", token, last=f"{done['seq']}-end")
    await over.open()
    assert over.status == 204
    over.close()


async def test_states_are_told_between_events_and_a_resume_goes_on_with_the_numbers(
    running: Running, demo: str, root: Path
) -> None:
    client, token = running.client("operator"), running.tokens["viewer"]
    (root / "go").touch()
    (root / "broken").touch()
    task = (await client.post("/clusters/demo/create", json={})).json()["id"]
    first = await Follower(running.url, f"/tasks/{task}/events", token).all()
    assert first[-1].data["state"] == "failed"
    last = max(told.id or 0 for told in first)
    (root / "broken").unlink()
    await client.post(f"/tasks/{task}/resume")
    second = await Follower(running.url, f"/tasks/{task}/events", token, last=last).all()
    numbers = [told.id for told in second if told.id is not None]
    assert numbers[0] == last + 1
    assert second[-1].data["state"] == "succeeded"
    assert next(told.data["kind"] for told in second if told.id is not None) == "run.resumed"


@pytest.mark.parametrize("how", ["token", "session"])
async def test_a_stream_ends_with_the_token_or_session_it_was_opened_with(
    running: Running, demo: str, root: Path, how: str
) -> None:
    admin = running.client()
    task = (await admin.post("/clusters/demo/create", json={})).json()["id"]
    await until((root / "waiting").exists)
    made = (await admin.post("/tokens", json={"name": "eve", "grants": {"*": "viewer"}})).json()
    running.tokens["eve"] = made["token"]
    eve = running.client("" if how == "session" else "eve")
    if how == "session":
        assert (await eve.post("/session", json={"token": made["token"]})).status_code == 200
    other = Follower(running.url, f"/tasks/{task}/events", running.tokens["viewer"])
    await other.open()
    for path in (f"/tasks/{task}/events", f"/tasks/{task}/logs/work.do.wait/n1/follow"):
        async with eve.stream("GET", path) as answer:
            assert answer.status_code == 200
            pieces = answer.aiter_text()
            assert "retry" in await anext(pieces)
            if how == "session":
                csrf = (await eve.get("/session")).json()["csrf"]
                assert (await eve.delete("/session", headers={"X-CSRF-Token": csrf})).status_code == 204
            else:  # as on the command line, beside the server
                await running.server.store.tokens.revoke(made["id"])
            async with asyncio.timeout(30):
                rest = "".join([piece async for piece in pieces])
            assert "event: end" not in rest
        assert (await eve.get(path)).status_code == 401
        if how == "session":
            assert (await eve.post("/session", json={"token": made["token"]})).status_code == 200
        else:
            break
    assert (await admin.get(f"/tasks/{task}")).json()["state"] == "running"
    (root / "go").touch()
    assert (await other.all())[-1].kind == "end", "nobody else's stream ends"


async def test_output_is_followed_as_it_is_printed(running: Running, demo: str, root: Path) -> None:
    client, token = running.client("operator"), running.tokens["viewer"]
    task = (await client.post("/clusters/demo/create", json={})).json()["id"]
    follower = Follower(running.url, f"/tasks/{task}/logs/work.do.wait/n1/follow", token)
    events, text = follower.events(), ""
    while text != "waiting\nto be let go\n":
        told = await anext(events)
        assert told.kind == "output"
        text += told.data["text"]
    assert (await client.get(f"/tasks/{task}")).json()["state"] == "running", "it is still at it"
    (root / "go").touch()
    assert [later.kind async for later in events] == ["end"]
    follower.close()
    again = Follower(running.url, f"/tasks/{task}/logs/work.do.wait/n1/follow", token, last=told.id)
    assert [later.kind for later in await again.all()] == ["end"]
    whole = Follower(running.url, f"/tasks/{task}/logs/work.do.wait/n1/follow", token)
    assert "".join(later.data["text"] for later in await whole.all() if later.kind == "output") == text


class TestLimits:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(streams=3, streams_each=2, heartbeat=0.1)

    async def test_so_many_streams_and_no_more(self, start: StartServer, places_url: str, root: Path) -> None:
        running = await start(places_url)
        await registered(running, root)
        client = running.client("operator")
        task = (await client.post("/clusters/demo/create", json={})).json()["id"]
        path = f"/tasks/{task}/events"

        async def opened(who: str) -> Follower:
            follower = Follower(running.url, path, running.tokens[who])
            await follower.open()
            return follower

        followers = [await opened("viewer"), await opened("viewer"), await opened("viewer"), await opened("admin")]
        assert [follower.status for follower in followers] == [200, 200, 429, 200]
        followers.append(await opened("operator"))
        assert followers[-1].status == 429
        for follower in followers:
            follower.close()
        await until(lambda: running.server.streams.count == 0)
        again = await opened("viewer")
        assert again.status == 200
        again.close()
        (root / "go").touch()
        await ended(client, task)


async def test_a_cut_journal_ends_the_stream_and_not_the_server(running: Running, demo: str, root: Path) -> None:
    client, token = running.client("operator"), running.tokens["viewer"]
    task = (await client.post("/clusters/demo/create", json={})).json()["id"]
    await until((root / "waiting").exists)
    journal = running.server.places.work / "demo" / "runs" / task / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    follower = Follower(running.url, f"/tasks/{task}/events", token)
    events = follower.events()
    while (await anext(events)).id is None:
        pass
    with journal.open("ab") as file:
        file.write(b"garbage\n")
    (root / "go").touch()
    kinds = [told.kind async for told in events]
    assert kinds[-1] == "end"
    follower.close()
    assert (await client.get("/health")).status_code == 200
    assert lines
