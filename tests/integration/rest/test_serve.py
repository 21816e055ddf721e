"""`kubexm serve` as a process: first token, TLS, kill -9 in mid-run and resume, keys, audit, one server at a time."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.service.work import spec
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root

Start = Callable[..., "Serving"]


class Serving:
    """A server process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.url = self.token = ""
        self.clients: list[httpx.Client] = []

    def wait(self) -> None:
        """Until it says where it is."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            text = self.log.read_text()
            if "token:" in text:
                self.url = re.search(r"serves at (\S+)", text)[1]  # type: ignore[index]
                shown = re.search(r"(kx_\S+)", text)
                self.token = shown[1] if shown else ""
                return
            time.sleep(0.05)
        raise AssertionError(f"it does not serve:\n{self.log.read_text()}")

    def client(self, token: str, **options: Any) -> httpx.Client:
        """Asks it."""
        headers = {"Authorization": f"Bearer {token}"}
        made = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, **options)
        self.clients.append(made)
        return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def start(tmp_path: Path, data: Path) -> Iterator[Start]:
    """Starts servers that take this machine for every host."""
    made: list[Serving] = []

    def begin(*more: str, listen: str = "127.0.0.1:0", wait: bool = True) -> Serving:
        log = tmp_path / f"log{len(made)}"
        words = ["serve", "--data-dir", str(data), "--listen", listen, *more]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.rest.server", str(tmp_path / "hosts"), *words],
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        serving = Serving(process, log)
        made.append(serving)
        if wait:
            serving.wait()
        return serving

    yield begin
    for serving in made:
        for client in serving.clients:
            client.close()
        if serving.process.poll() is None:
            serving.process.kill()
        serving.process.wait()


def kubexm(data: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubexm", *words, "--data-dir", str(data)]
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=120)


def ended(client: httpx.Client, task: str) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"/tasks/{task}").json()
        if found["state"] not in ("queued", "running"):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{task} does not end")


def appears(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["the server", "all of it"])
def test_killed_in_mid_run_and_started_again_a_task_is_interrupted_and_resumed(
    start: Start, data: Path, tmp_path: Path, how: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    first = start()
    client = first.client(first.token)
    body = {"spec": spec(root), "secrets": {"login": "hush-hush"}}
    assert client.post("/clusters", json=body).status_code == 201
    task = client.post("/clusters/demo/create", json={}).json()["id"]
    appears(root / "waiting")
    waits = client.post("/clusters/demo/preflight", json={}).json()["id"]
    appears(root / "looking")
    workers = _children(first.process.pid)
    assert len(workers) == 2
    first.process.kill()
    first.process.wait()
    for pid in workers if how == "all of it" else []:
        os.kill(pid, signal.SIGKILL)
    second = start()
    assert second.token == "", "the first token is shown once"
    client = second.client(first.token)
    died = client.get(f"/tasks/{task}").json()
    assert died["state"] == "interrupted"
    assert died["resumable"]
    assert client.get(f"/tasks/{waits}").json()["state"] in ("interrupted", "cancelled")
    (root / "go").touch()
    (root / "seen").touch()
    assert client.post(f"/tasks/{task}/resume").status_code == 202
    done = ended(client, task)
    assert done["state"] == "succeeded"
    assert (root / "times").read_text() == "x\n", "nothing was done twice"
    history = client.get(f"/tasks/{task}/history").json()
    assert [each["seq"] for each in history] == list(range(1, done["seq"] + 1))
    assert client.get("/audit/verify").json()["ok"]


def test_a_server_that_is_stopped_ends_its_workers_and_says_so(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    first = start()
    client = first.client(first.token)
    client.post("/clusters", json={"spec": spec(root), "secrets": {"login": "x"}})
    task = client.post("/clusters/demo/create", json={}).json()["id"]
    appears(root / "waiting")
    workers = _children(first.process.pid)
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(60) in (0, -signal.SIGTERM)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    second = start()
    client = second.client(first.token)
    assert client.get(f"/tasks/{task}").json()["state"] == "interrupted"


def test_tokens_keys_and_the_audit_from_the_command_line(start: Start, data: Path, tmp_path: Path) -> None:
    serving = start()
    client = serving.client(serving.token)
    root = tmp_path / "root"
    root.mkdir()
    client.post("/clusters", json={"spec": spec(root), "secrets": {"login": "x"}})
    made = kubexm(data, "serve", "token", "create", "--role", "viewer", "--name", "ann", "--expires", "1h")
    token = made.stdout.strip()
    with serving.client(token) as viewer:
        assert viewer.get("/session").json()["name"] == "ann"
        assert viewer.post("/clusters/demo/create", json={}).status_code == 403
        listed = kubexm(data, "serve", "token", "list", "-o", "json").stdout
        assert token not in listed
        kubexm(data, "serve", "token", "revoke", token.split("_")[1])
        assert viewer.get("/session").status_code == 401
    busy = kubexm(data, "serve", "rotate-key", check=False)
    assert busy.returncode == 1
    assert "another kubexm server uses" in busy.stderr
    other = start(wait=False)
    assert other.process.wait(60) == 1
    assert "another kubexm server uses" in other.log.read_text()
    serving.process.send_signal(signal.SIGINT)
    serving.process.wait(60)
    before = (data / "key").read_text()
    assert "sealed anew" in kubexm(data, "serve", "rotate-key").stdout
    after = (data / "key").read_text()
    assert before != after
    assert len([line for line in after.splitlines() if not line.startswith("#")]) == 1
    checked = kubexm(data, "audit", "verify")
    assert "all as they were written" in checked.stdout
    head = checked.stdout.split()[-1]
    assert kubexm(data, "audit", "verify", "--expect", head).returncode == 0
    assert kubexm(data, "audit", "verify", "--expect", "0" * 64, check=False).returncode == 1
    again = start()
    with again.client(serving.token) as admin:
        assert admin.get("/clusters/demo").json()["missing_secrets"] == []


def test_anything_but_this_machine_needs_tls(start: Start, data: Path) -> None:
    bare = start(listen="0.0.0.0:0", wait=False)
    assert bare.process.wait(60) == 2
    assert "they could read along" in bare.log.read_text()
    serving = start("--tls-self-signed", listen="0.0.0.0:0")
    shown = re.search(r"SHA-256 ([0-9A-F:]{95})", serving.log.read_text())
    assert shown is not None
    port = int(serving.url.rpartition(":")[2])
    trusted = ssl.create_default_context(cafile=str(data / "tls" / "cert.pem"))
    with httpx.Client(verify=trusted, headers={"Authorization": f"Bearer {serving.token}"}) as client:
        answer = client.get(f"https://127.0.0.1:{port}/api/v1/session")
        assert answer.json()["role"] == "admin"
        assert "strict-transport-security" in answer.headers
        login = client.post(f"https://127.0.0.1:{port}/api/v1/session", json={"token": serving.token})
        assert "Secure" in login.headers["set-cookie"]
    certificate = ssl.get_server_certificate(("127.0.0.1", port))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest().upper()
    assert shown[1].replace(":", "") == digest
    assert (data / "tls" / "key.pem").stat().st_mode & 0o077 == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
