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

from kubexm.service.places import Places
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
                kept = re.search(r"token: +in (\S+)", text)
                self.token = Path(kept[1]).read_text().strip() if kept else ""
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
    assert second.token == "", "there is one first token"
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
    assert serving.process.wait(60) == 0
    assert serving.log.read_text().endswith("\nstopped\n")
    assert "Traceback" not in serving.log.read_text()
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


def test_the_first_token_goes_to_a_terminal_or_into_a_private_file(start: Start, data: Path, tmp_path: Path) -> None:
    serving = start()
    assert "kx_" not in serving.log.read_text()
    assert (data / "first-token").stat().st_mode & 0o777 == 0o600
    with serving.client(serving.token) as admin:
        assert admin.get("/session").json()["role"] == "admin"
    other, (near, far) = tmp_path / "other", os.openpty()
    words = ["serve", "--data-dir", str(other), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "kubexm", *words], stdout=far, stderr=far)
    try:
        shown, deadline = "", time.monotonic() + 60
        while "shown this once" not in shown and time.monotonic() < deadline:
            shown += os.read(near, 4096).decode()
        assert "kx_" in shown
        assert not (other / "first-token").exists()
    finally:
        process.kill()
        process.wait()
        os.close(near)
        os.close(far)


def test_the_last_administrator_token_is_revoked_only_by_force(start: Start, data: Path) -> None:
    serving = start()
    number = serving.token.split("_")[1]
    brief = kubexm(data, "serve", "token", "create", "--role", "admin", "--expires", "1s").stdout.split("_")[1]
    kubexm(data, "serve", "token", "create", "--role", "operator")
    time.sleep(1.1)
    refused = kubexm(data, "serve", "token", "revoke", number, check=False)
    assert refused.returncode != 0
    assert "last valid administrator token" in refused.stderr
    assert kubexm(data, "serve", "token", "revoke", brief).returncode == 0, "one that has expired counts for nothing"
    with serving.client(serving.token) as admin:
        conflict = admin.delete(f"/tokens/{number}")
        assert (conflict.status_code, "force" in conflict.json()["hint"]) == (409, True)
        assert admin.delete(f"/tokens/{number}", params={"force": True}).status_code == 200
        assert admin.get("/session").status_code == 401


def test_a_server_is_not_ready_while_its_disk_is_full(start: Start, data: Path) -> None:
    data.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(data)], check=True)
    try:
        serving = start()
        with serving.client(serving.token) as client:
            assert client.get("/ready").json()["disk"] == "ok"
            fill = subprocess.run(["dd", "if=/dev/zero", f"of={data / 'fill'}", "bs=64k"], capture_output=True)
            assert b"No space left" in fill.stderr
            full = _eventually(client, lambda answer: answer.status_code == 503)
            assert (full.json()["ready"], full.json()["disk"]) == (False, "full")
            assert full.headers["retry-after"]
            assert client.get("/health").status_code == 200
            (data / "fill").unlink()
            assert _eventually(client, lambda answer: answer.status_code == 200).json()["ready"]
        serving.process.terminate()
        serving.process.wait(60)
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)


def _eventually(client: httpx.Client, good: Callable[[httpx.Response], bool]) -> httpx.Response:
    deadline = time.monotonic() + 60
    while not good(answer := client.get("/ready")):
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.2)
    return answer


def test_a_task_that_is_cancelled_at_once_leaves_no_traceback_and_no_directory(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    serving = start()
    client = serving.client(serving.token)
    assert client.post("/clusters", json={"spec": spec(root), "secrets": {"login": "x"}}).status_code == 201
    place = Places(tmp_path / "data").staged("demo").parent
    for _ in range(3):
        task = client.post("/clusters/demo/create", json={}).json()["id"]
        appears(place)
        assert client.post(f"/tasks/{task}/cancel").status_code == 202
        assert ended(client, task)["state"] == "cancelled"
    assert "Traceback" not in serving.log.read_text()
    assert not place.exists()


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
    """The workers of a server; besides them it has processes that check specs."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in found if b"kubexm.service.checker" not in Path(f"/proc/{child}/cmdline").read_bytes()]
