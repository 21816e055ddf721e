"""A real server with real hosts behind it, and a browser in front."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from kubexm.testing import SshServer, why_no_sshd
from tests.browser import Watched, chromium, why_no_chromium

REPO = Path(__file__).parents[3]
OWN_STATE = ("mount -t tmpfs -o mode=755 state /var/lib",)  # what kubexm keeps on a host stays on this one


@dataclass
class Site:
    """A server with hosts."""

    url: str
    token: str
    servers: dict[str, SshServer]
    process: subprocess.Popen[bytes]
    log: Path
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self) -> httpx.Client:
        """Asks it as the command line would."""
        headers = {"Authorization": f"Bearer {self.token}"}
        made = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)
        self.clients.append(made)
        return made

    def spec(self, name: str, **labels: str) -> str:
        """A cluster of these hosts."""
        lines = [
            f'    - {{name: {host}, address: {server.address}, port: {server.port}, hostKey: "{server.fingerprint}"}}'
            for host, server in self.servers.items()
        ]
        marks = "".join(f"    {key}: {value}\n" for key, value in labels.items())
        return (
            f"apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata:\n  name: {name}\n"
            + (f"  labels:\n{marks}" if marks else "")
            + "spec:\n  global:\n    user: root\n    privateKey: secret:key\n  hosts:\n"
            + "\n".join(lines)
            + f"\n  roleGroups:\n    etcd: [n1]\n    controlPlane: [n1]\n    worker: [{', '.join(self.servers)}]\n"
            + "  execution: {maxFailedWorkers: 0}\n"
        )

    @property
    def key(self) -> str:
        """What lets one in on every host."""
        return next(iter(self.servers.values())).private_key.read_text()

    def on(self, host: str, script: str) -> int:
        """Runs something on a host, the way OpenSSH does."""
        server = self.servers[host]
        words = [
            "-i",
            str(server.private_key),
            "-p",
            str(server.port),
            "-o",
            f"UserKnownHostsFile={server.known_hosts}",
        ]
        return subprocess.run(
            ["ssh", *words, f"root@{server.address}", script],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        ).returncode

    def wait_on(self, host: str, test: str) -> None:
        """Until something holds on a host."""
        deadline = time.monotonic() + 60
        while self.on(host, test) != 0:
            assert time.monotonic() < deadline, f"{test} never held on {host}"
            time.sleep(0.05)

    def clean(self) -> None:
        """No host remembers anything."""
        for host in self.servers:
            self.on(host, "rm -rf /run/try; mkdir -p /run/try")

    def register(self, name: str, **labels: str) -> None:
        """A cluster, past the page; what an earlier try of the same test left of it is ended and forgotten."""
        client = self.client()
        for task in client.get("/tasks", params={"cluster": name}).json()["items"]:
            if task["state"] in ("queued", "running"):
                for _ in range(2):  # the second time: now
                    client.post(f"/tasks/{task['id']}/cancel")
                self.ended(task["id"])
        client.delete(f"/clusters/{name}", params={"force": True})
        body = {"spec": self.spec(name, **labels), "secrets": {"key": self.key}}
        answer = client.post("/clusters", json=body)
        assert answer.status_code == 201, answer.text

    def ended(self, task: str) -> dict[str, Any]:
        """The task, once it has ended."""
        client, deadline = self.client(), time.monotonic() + 120
        while time.monotonic() < deadline:
            found: dict[str, Any] = client.get(f"/tasks/{task}").json()
            if found["state"] not in ("queued", "running"):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{task} does not end")


@pytest.fixture(scope="session")
def servers(server_directory: Path) -> Iterator[dict[str, SshServer]]:
    if reason := why_no_sshd():
        pytest.skip(reason)
    found: dict[str, SshServer] = {}
    for number, name in enumerate(("n1", "n2", "n3"), start=31):
        directory = server_directory / f"web-{name}"
        directory.mkdir(mode=0o755)
        if found:  # one key opens all of them
            for file in ("client_key", "client_key.pub"):
                (directory / file).write_bytes((found["n1"].directory / file).read_bytes())
                (directory / file).chmod(0o600)
        found[name] = SshServer(directory=directory, hostname=name, address=f"127.0.0.{number}", mounts=OWN_STATE)
        found[name].start()
    yield found
    for server in found.values():
        server.stop()


@pytest.fixture(scope="session")
def site(servers: dict[str, SshServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("site")
    log, words = place / "log", ("serve", "--listen", "127.0.0.1:0", "--data-dir", str(place / "data"))
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.web.work", *words],
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            cwd=REPO,
        )
    deadline = time.monotonic() + 60
    while (shown := re.search(r"serves at (\S+)[\s\S]*token: +in (\S+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    made = Site(shown[1], Path(shown[2]).read_text().strip(), servers, process, log)
    yield made
    for client in made.clients:
        client.close()
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: while it is open, its event loop runs, and no other can."""
    if reason := why_no_chromium():
        pytest.skip(reason)
    with chromium() as found:
        yield found


OpenPage = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Browser, site: Site) -> Iterator[OpenPage]:
    """Opens pages, logged in unless told otherwise. A test in which one of them complained has failed."""
    opened: list[tuple[Any, Watched]] = []

    def begin(path: str = "#/", *, login: bool = True, url: str = "", **options: Any) -> Watched:
        where = url or site.url
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        watched = Watched(context.new_page(), where)
        opened.append((context, watched))
        if login:
            answer = context.request.post(f"{where}/api/v1/session", data={"token": site.token})
            assert answer.ok, answer.text()
        watched.page.goto(f"{where}/{path}")
        return watched

    yield begin
    complaints = [each for _, watched in opened for each in watched.complaints]
    for context, _ in opened:
        context.close()
    assert complaints == []
