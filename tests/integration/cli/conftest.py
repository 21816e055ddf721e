"""Hosts behind real sshd, a cluster file for them, and the command line."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubexm.cli.main import main
from kubexm.pipeline import PIPELINES
from kubexm.testing import SshServer, why_no_sshd
from tests.integration.cli.work_pipeline import PLACES

REPO = Path(__file__).parents[3]
OWN_STATE = ("mount -t tmpfs -o mode=755 state /var/lib",)  # what kubexm keeps on a host stays on this one


@dataclass(frozen=True)
class Done:
    """What a command line printed."""

    stdout: str
    stderr: str


@dataclass
class Fleet:
    """Hosts, a cluster file for them, and the command line."""

    servers: dict[str, SshServer]
    file: Path
    capture: pytest.CaptureFixture[str]

    def kubexm(self, *arguments: str, check: int = 0) -> Done:
        """A command line in this process: importing everything anew each time would take most of the test's time."""
        self.capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        shown = self.capture.readouterr()
        assert ended.value.code == check, f"{ended.value.code}\n{shown.out}\n{shown.err}"
        return Done(shown.out, shown.err)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command line in a process of its own, for signals."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.cli.work_pipeline", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPO), "KUBEXM_FILE": str(self.file)},
            cwd=self.file.parent,
        )

    def on(self, host: str, script: str) -> int:
        """Runs something on a host, the way OpenSSH does."""
        server = self.servers[host]
        return subprocess.run(
            ["ssh", "-i", server.private_key, "-p", str(server.port), "-o", f"UserKnownHostsFile={server.known_hosts}",
             f"root@{server.address}", script],
            check=False, stdin=subprocess.DEVNULL, capture_output=True,
        ).returncode  # fmt: skip

    def wait_on(self, host: str, test: str) -> None:
        deadline = time.monotonic() + 60
        while self.on(host, test) != 0:
            assert time.monotonic() < deadline, f"{test} never held on {host}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def servers(server_directory: Path) -> Iterator[dict[str, SshServer]]:
    if reason := why_no_sshd():
        pytest.skip(reason)
    found = {
        name: SshServer(
            directory=server_directory / f"cli-{name}", hostname=name, address=f"127.0.0.{number}", mounts=OWN_STATE
        )
        for number, name in enumerate(("n1", "n2"), start=21)
    }
    for server in found.values():
        server.start()
    yield found
    for server in found.values():
        server.stop()


@pytest.fixture
def fleet(
    servers: dict[str, SshServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Fleet]:
    file = write_file(tmp_path / "cluster.yaml", servers)
    monkeypatch.setenv("KUBEXM_FILE", str(file))
    monkeypatch.chdir(tmp_path)
    for name, place in PLACES.items():
        monkeypatch.setitem(PIPELINES, name, place)
    made = Fleet(servers, file, capsys)
    yield made
    logger = logging.getLogger("kubexm")
    logger.handlers.clear()
    logger.propagate = True
    for host in servers:
        made.on(host, "rm -rf /run/work /run/go /run/gone /run/broken /run/waiting")


def write_file(path: Path, servers: dict[str, SshServer]) -> Path:
    hosts = "\n".join(
        f"    - {{name: {name}, address: {server.address}, port: {server.port}, "
        f'privateKeyPath: {server.private_key}, hostKey: "{server.fingerprint}"}}'
        for name, server in servers.items()
    )
    path.write_text(
        f"apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: try}}\nspec:\n  hosts:\n{hosts}\n"
        "  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1, n2]}\n"
        "  execution: {maxFailedWorkers: 0}\n"
    )
    return path
