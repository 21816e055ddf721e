"""`kubexm bundle create` as a process: from a plain HTTP server, killed half way, with the disk full."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubexm.assets import Bundle, catalog, pack, verify
from kubexm.errors import AssetError
from tests.unit.assets.samples import tree
from tests.unit.assets.upstream_double import KUBERNETES, upstream
from tests.unit.assets.web import Web


def kubexm(*arguments: object) -> list[str]:
    """A command line."""
    return [sys.executable, "-m", "kubexm", "bundle", *(str(argument) for argument in arguments)]


def environment(cache: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**kept, "KUBEXM_CACHE": str(cache), "NETRC": "/dev/null"}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextlib.contextmanager
def plain_server(directory: Path) -> Iterator[str]:
    """The simplest server there is: Python's own, which knows no ranges."""
    handler = functools.partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_any_http_server_with_upstreams_layout_is_a_mirror(tmp_path: Path) -> None:
    with upstream() as (web, _):
        for path, page in web.pages.items():
            target = tmp_path / "mirror" / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.data)
        with plain_server(tmp_path / "mirror") as url:
            result = subprocess.run(
                kubexm(
                    *("create", "--from", "mirror", url, "--kubernetes", KUBERNETES, "--arch", "amd64"),
                    *("--out", tmp_path / "made.tar.zst", "--registry-mirror", web.url),
                ),
                env=environment(tmp_path / "cache"),
                capture_output=True,
                text=True,
                check=False,
            )
    assert result.returncode == 0, result.stderr
    assert verify(tmp_path / "made.tar.zst", arch="amd64").ok
    with Bundle.open(tmp_path / "made.tar.zst") as bundle:
        bundle.extract(tmp_path / "made")
    with plain_server(tmp_path / "made/files") as url:  # a bundle's files are a mirror themselves, but for the sums
        sums = "".join(f"{file.sha256}  {file.path}\n" for file in bundle.manifest.files)
        (tmp_path / "SUMS").write_text(sums)
        with upstream() as (web, _):
            again = subprocess.run(
                kubexm(
                    *("create", "--from", "mirror", url, "--kubernetes", KUBERNETES, "--arch", "amd64"),
                    *("--out", tmp_path / "again", "--registry-mirror", web.url, "--sums", tmp_path / "SUMS"),
                ),
                env=environment(tmp_path / "cache2"),
                capture_output=True,
                text=True,
                check=False,
            )
    assert again.returncode == 0, again.stderr
    assert tree(tmp_path / "again") == tree(tmp_path / "made"), "the same inputs, another way, the same bytes"


def test_killed_half_way_it_goes_on_where_it_was(tmp_path: Path) -> None:
    big = random.Random(7).randbytes(3_000_000)
    with upstream() as (web, _):
        path = "/" + catalog.release(KUBERNETES, "amd64").file("kubelet").path
        _replace(web, path, big)
        web.pages[path].cut_after = [1_000_000] + [0] * 10_000  # a server that stalls after the first megabyte
        command = kubexm(
            *("create", "--from", "mirror", web.url, "--kubernetes", KUBERNETES, "--arch", "amd64"),
            *("--out", tmp_path / "made", "--registry-mirror", web.url),
        )
        process = subprocess.Popen(
            command, env=environment(tmp_path / "cache"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while len(web.ranges(path)) < 3 and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "made").exists()
        asked = len(web.ranges(path))
        web.pages[path].cut_after = []
        result = subprocess.run(
            command, env=environment(tmp_path / "cache"), capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        later = web.ranges(path)[asked:]
        assert later == ["bytes=1000000-2999999"], "only what was missing was asked for"
    assert verify(tmp_path / "made").ok
    leftovers = [path.name for path in (tmp_path / "cache").rglob("*") if ".part" in path.name or ".lock" in path.name]
    assert not leftovers


def _replace(web: Web, path: str, data: bytes) -> None:
    web.put(path, data)
    web.put(f"{path}.sha256", hashlib.sha256(data).hexdigest().encode())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for very little."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    target = tmp_path / "small"
    target.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(target)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", str(target)], check=True)


def test_a_full_disk_is_said_and_leaves_nothing(big_bundle: Path, small_disk: Path, tmp_path: Path) -> None:
    pack(big_bundle, tmp_path / "big.tar.zst")
    with Bundle.open(tmp_path / "big.tar.zst") as bundle, pytest.raises(AssetError, match="no space left"):
        bundle.extract(small_disk / "out")
    with pytest.raises(AssetError, match=r"no space left while writing .*big\.tar\.zst"):
        pack(big_bundle, small_disk / "big.tar.zst")
    assert list(small_disk.iterdir()) == []
    with upstream() as (web, _):
        path = "/" + catalog.release(KUBERNETES, "amd64").file("kubelet").path
        _replace(web, path, bytes(6_000_000))
        for cache, out in ((small_disk / "cache", tmp_path / "made"), (tmp_path / "cache", small_disk / "made")):
            result = subprocess.run(
                kubexm(
                    *("create", "--from", "mirror", web.url, "--kubernetes", KUBERNETES, "--arch", "amd64"),
                    *("--out", out, "--registry-mirror", web.url),
                ),
                env=environment(cache),
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 1
            assert "no space left" in result.stderr, result.stderr
            assert "Traceback" not in result.stderr
            assert not out.exists()
            assert not [each for each in out.parent.iterdir() if each.name.startswith(".made")]
            shutil.rmtree(small_disk / "cache", ignore_errors=True)
