"""The downloader: resumes with ranges, believes only the sha256, and leaves a whole file or none."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import hashlib
import json
import os
import time
from pathlib import Path

import httpx
import pytest

from kubexm.assets.download import Download, Downloader
from kubexm.assets.sums import PinnedSums, find_sum
from kubexm.assets.transfer import Damaged, NotThere, Refused, Retry, Unreachable, following, open_client, shown_url
from kubexm.errors import AssetError
from tests.unit.assets.web import Web

DATA = bytes(range(256)) * 1000
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def downloader(client: httpx.AsyncClient, retry: Retry) -> Downloader:
    """One with small ranges, so that small files have several."""
    return Downloader(following(client), retry=retry, part=64 * 1024, parallel=3)


def files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_a_small_and_an_empty_file(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/small", b"hello")
    web.put("/empty", b"")
    sha = await downloader.fetch(Download(url=f"{web.url}/small"), tmp_path / "small")
    await downloader.fetch(Download(url=f"{web.url}/empty"), tmp_path / "empty")
    assert sha == hashlib.sha256(b"hello").hexdigest()
    assert (tmp_path / "small").read_bytes() == b"hello"
    assert (tmp_path / "empty").read_bytes() == b""
    assert files(tmp_path) == {"small", "empty"}


async def test_a_big_file_comes_in_parallel_ranges(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/big", DATA)
    await downloader.fetch(Download(url=f"{web.url}/big", sha256=SHA, size=len(DATA)), tmp_path / "big")
    assert (tmp_path / "big").read_bytes() == DATA
    assert sorted(web.ranges("/big")) == sorted(
        f"bytes={at}-{min(at + 65535, len(DATA) - 1) if at else 65535}" for at in range(0, len(DATA), 65536)
    )
    assert all(asked.headers.get("if-range") for asked in web.asked[1:])


async def test_ranges_really_run_at_once(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    page = web.put("/big", DATA)
    task = asyncio.create_task(downloader.fetch(Download(url=f"{web.url}/big"), tmp_path / "big"))
    async with asyncio.timeout(10):
        while len(web.asked) < 2:  # the first range came; from now on nobody gets an answer
            page.wait = page.wait or asyncio.Event()
            await asyncio.sleep(0)
            if len(web.asked) == 1:
                page.wait.set()
        page.wait = asyncio.Event()
        while len(web.asked) < 4:
            await asyncio.sleep(0.001)
        page.wait.set()
        await task
    assert (tmp_path / "big").read_bytes() == DATA


async def test_a_cut_connection_is_resumed_where_it_broke(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA[:60_000], cut_after=[20_000, 10_000, -1])
    await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA[:60_000]
    first, second, third = web.ranges("/f")
    assert first == "bytes=0-65535"
    assert second == "bytes=20000-59999"
    assert third == "bytes=30000-59999"


async def test_a_later_run_goes_on_where_the_first_gave_up(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    page = web.put("/f", DATA[:60_000], cut_after=[25_000])
    page.fail_with = []
    wanted = Download(url=f"{web.url}/f", sha256=hashlib.sha256(DATA[:60_000]).hexdigest())
    task = downloader.fetch(wanted, tmp_path / "f")
    web.handler = lambda asked: (503, {}, b"") if len(web.asked) > 1 else None
    with pytest.raises(Unreachable, match=r"/f could not be downloaded: HTTP 503 \(6 attempts\)"):
        await task
    assert files(tmp_path) == {"f.part", "f.part.json"}
    web.handler = None
    web.asked.clear()
    await downloader.fetch(wanted, tmp_path / "f")
    assert web.ranges("/f") == ["bytes=25000-59999"]
    assert files(tmp_path) == {"f"}


async def test_cancelling_keeps_what_is_there(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    page = web.put("/f", DATA, cut_after=[-1, -1])
    page.pieces = 1000
    seen = asyncio.Event()

    def progress(_: str, done: int, __: int | None) -> None:
        if done > 70_000:
            seen.set()

    slow = Downloader(downloader._open, part=64 * 1024, parallel=1, progress=progress)
    task = asyncio.create_task(slow.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f"))
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = sum(done for _, _, done in json.loads((tmp_path / "f.part.json").read_bytes())["segments"])
    assert kept >= 65_536
    web.asked.clear()
    await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert "bytes=0-65535" not in web.ranges("/f")
    assert (tmp_path / "f").read_bytes() == DATA


async def test_a_file_that_changed_meanwhile_is_begun_anew(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA, cut_after=[10_000])
    web.handler = lambda asked: (503, {}, b"") if len(web.asked) > 1 else None
    with pytest.raises(Unreachable):
        await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    web.handler = None
    web.put("/f", DATA[::-1])
    await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA[::-1]


async def test_an_old_part_that_was_damaged_is_thrown_away(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA, cut_after=[10_000])
    web.handler = lambda asked: (503, {}, b"") if len(web.asked) > 1 else None
    with pytest.raises(Unreachable):
        await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    with (tmp_path / "f.part").open("r+b") as part:
        part.write(b"scribble")
    web.handler = None
    await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("how", [{"ranges": False}, {"ranges": False, "length": False}, {"etag": False}])
async def test_plain_servers_will_do(web: Web, downloader: Downloader, tmp_path: Path, how: dict[str, object]) -> None:
    web.put("/f", DATA, **how)
    await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


async def test_a_server_without_ranges_is_asked_again_from_the_start(
    web: Web, downloader: Downloader, tmp_path: Path
) -> None:
    web.put("/f", DATA, ranges=False, cut_after=[100_000, 50_000, 120_000, -1])
    await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert len(web.asked) == 4


async def test_a_bad_sum_names_url_expected_and_got(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA)
    with pytest.raises(Damaged) as caught:
        await downloader.fetch(Download(url=f"{web.url}/f", sha256="0" * 64), tmp_path / "f")
    for telling in (f"{web.url}/f", "0" * 64, SHA):
        assert telling in caught.value.message
    assert files(tmp_path) == set()


async def test_a_body_cut_without_a_trace_fails_its_sum(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    """With no length, a cut looks like an end: only the sum can tell."""
    web.put("/f", DATA, length=False, ranges=False, cut_after=[1000] * 9)
    with pytest.raises(Damaged, match=r"got sha256 .* and 1000 bytes"):
        await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert files(tmp_path) == set()


async def test_a_length_that_is_not_true(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA, ranges=False, claim=len(DATA) + 10)
    with pytest.raises(Unreachable, match="/f could not be downloaded"):
        await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    web.put("/g", DATA)
    with pytest.raises(Damaged, match=f"has {len(DATA)} bytes, expected 5"):
        await downloader.fetch(Download(url=f"{web.url}/g", size=5), tmp_path / "g")


async def test_busy_servers_are_asked_again_with_patience(
    web: Web, downloader: Downloader, waits: list[float], tmp_path: Path
) -> None:
    soon = email.utils.formatdate(time.time() - 5, usegmt=True)
    web.put(
        "/f",
        DATA,
        fail_with=[
            (503, {}),
            (500, {}),
            (429, {"Retry-After": "7"}),
            (429, {"Retry-After": "99999"}),
            (503, {"Retry-After": soon}),
        ],
    )
    await downloader.fetch(Download(url=f"{web.url}/f", sha256=SHA), tmp_path / "f")
    assert waits == [0.25, 0.5, 7.0, 60.0, 0.0]


async def test_nobody_there(downloader: Downloader, waits: list[float], tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1/f could not be downloaded: no connection"):
        await downloader.fetch(Download(url="http://user:hush@127.0.0.1:1/f?token=hush"), tmp_path / "f")
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(("status", "kind"), [(404, NotThere), (410, NotThere), (403, Refused), (418, Refused)])
async def test_final_answers_are_not_asked_again(
    web: Web, downloader: Downloader, tmp_path: Path, status: int, kind: type[AssetError]
) -> None:
    web.put("/f", DATA, fail_with=[(status, {})] * 5)
    with pytest.raises(kind, match=str(status)):
        await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    assert len(web.asked) == 1
    assert files(tmp_path) == set()


async def test_redirects(web: Web, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA)
    web.put("/there", b"", redirect="/f?signature=secret")
    web.put("/loop", b"", redirect="/loop")
    await downloader.fetch(Download(url=f"{web.url}/there", sha256=SHA), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    with pytest.raises(Refused, match="redirects more than 10 times"):
        await downloader.fetch(Download(url=f"{web.url}/loop"), tmp_path / "g")


async def test_https_is_never_left() -> None:
    answers = {
        "https://safe/f": httpx.Response(302, headers={"location": "http://plain/f"}),
        "http://plain/f": httpx.Response(200, content=b"x"),
    }
    transport = httpx.MockTransport(lambda request: answers[str(request.url)])
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(Refused, match="leads from https to http://plain/f"):
            async with following(client)("https://safe/f", {}):
                pass


async def test_credentials_stay_with_their_host() -> None:
    seen: list[tuple[str, bool]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, "authorization" in request.headers))
        if request.url.path == "/f":
            return httpx.Response(302, headers={"location": "/same"})
        return httpx.Response(302 if request.url.host == "a" else 200, headers={"location": "https://b/other"})

    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client,
        following(client)("https://a/f", {"Authorization": "Bearer x"}) as response,
    ):
        assert response.status_code == 200
    assert seen == [("a", True), ("a", True), ("b", False)]


async def test_a_full_disk_leaves_nothing(
    web: Web, downloader: Downloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.put("/f", DATA)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(AssetError, match="no space left while writing"):
        await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    assert files(tmp_path) == set()


async def test_no_room_is_said_first(
    web: Web, downloader: Downloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.put("/f", DATA)
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:3], 0, 0, *real[5:])))
    with pytest.raises(AssetError, match=r"250\.0 KiB are needed, 0 B are free"):
        await downloader.fetch(Download(url=f"{web.url}/f"), tmp_path / "f")
    assert files(tmp_path) == set()


def test_urls_are_shown_without_secrets() -> None:
    assert shown_url("https://user:pw@host:8/a/b?token=x#y") == "https://host:8/a/b"


def test_a_ca_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(AssetError, match=f"{name} cannot be used"):
            open_client(ca_file=tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        SHA,
        f"{SHA}\n",
        f"{SHA.upper()}  f.tgz\n",
        f"{SHA} *f.tgz",
        f"{'1' * 64}  other.tgz\n{SHA}  ./dist/f.tgz\n",
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{SHA}  f.tgz\n-----END-----\n",
    ],
)
def test_every_form_of_published_sums(text: str) -> None:
    assert find_sum(text, "f.tgz", where="here") == SHA


@pytest.mark.parametrize(
    "text", ["", "<html>not found</html>", f"{SHA}  other", f"{SHA}\n{'1' * 64}", f"{SHA}  f.tgz\n{'1' * 64}  f.tgz"]
)
def test_sums_that_do_not_say(text: str) -> None:
    with pytest.raises(AssetError, match=r"here holds .* for f\.tgz"):
        find_sum(text, "f.tgz", where="here")


def test_pinned_sums(tmp_path: Path) -> None:
    path = tmp_path / "SUMS"
    path.write_text(f"# mine\n\n{SHA}  files/dl.k8s.io/v1/kubeadm\n{'2' * 64}  runc.amd64\n")
    pinned = PinnedSums.load(path)
    assert pinned.find("dl.k8s.io/v1/kubeadm") == SHA
    assert pinned.find("github.com/x/runc.amd64") == "2" * 64
    with pytest.raises(AssetError, match=r"no sum for dl\.k8s\.io/v2/kubeadm"):
        pinned.find("dl.k8s.io/v2/kubeadm")
    path.write_text("nonsense\n")
    with pytest.raises(AssetError, match="SUMS, line 1"):
        PinnedSums.load(path)
    path.write_text(f"{SHA}  a\n{'2' * 64}  a\n")
    with pytest.raises(AssetError, match="line 2: a is there with another sum"):
        PinnedSums.load(path)
    with pytest.raises(AssetError, match="cannot be read"):
        PinnedSums.load(tmp_path / "none")
