"""A run whose server or worker ends during a changing command: the first resume succeeds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubexm.pipeline import PIPELINES
from kubexm.plan import RunSpec, RunStatus
from kubexm.service import ClusterService, RunFiles
from kubexm.service.jobs import Job
from kubexm.testing import SshServer
from tests.integration.conftest import MakeServer
from tests.integration.engine.test_kill import OWN_STATE, cluster_file, printed
from tests.integration.engine.work import WAITS

REPO = Path(__file__).parents[3]
RUN = "20260101-000000-abcdef"


@pytest.fixture
def servers(make_sshd: MakeServer, monkeypatch: pytest.MonkeyPatch) -> list[SshServer]:
    monkeypatch.setitem(PIPELINES, "waiting", WAITS)
    return [make_sshd(hostname=f"h{i}", mounts=OWN_STATE) for i in range(2)]


def worker(file: Path) -> subprocess.Popen[bytes]:
    """A worker as a server starts it; the pipe to it stands for the server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.engine.work"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    spec = RunSpec("waiting")
    job = Job(task=RUN, kind="run", spec=spec, file=str(file), work_dir=str(file.parent / ".kubexm"))
    assert process.stdin is not None
    process.stdin.write(job.to_line())
    process.stdin.flush()
    return process


def until(server: SshServer, test: str) -> None:
    deadline = time.monotonic() + 120
    while not printed(server, f"! {test} || echo yes"):
        assert time.monotonic() < deadline, f"{test} never held"
        time.sleep(0.1)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", ["server killed", "worker terminated", "worker killed"])
def test_the_first_resume_succeeds(servers: list[SshServer], tmp_path: Path, how: str) -> None:
    file = cluster_file(tmp_path, servers, "root")
    process = worker(file)
    try:
        for server in servers:
            until(server, "[ -s /run/begun ]")
        if how == "server killed":
            assert process.stdin is not None
            process.stdin.close()  # what the worker sees of it
        else:
            process.send_signal(signal.SIGTERM if how == "worker terminated" else signal.SIGKILL)
        assert process.wait(120) is not None
    finally:
        process.kill()
        process.communicate()
    for server in servers:
        printed(server, "touch /run/go")
    run = tmp_path / ".kubexm" / "killed" / "runs" / RUN
    result = asyncio.run(ClusterService().resume(run, file=file))
    assert result.status is RunStatus.SUCCEEDED, list(result.failures())
    assert RunFiles(run).info().status == "succeeded"
    # What was ended is run again, and nothing else is.
    times = 1 if how == "worker killed" else 2
    for server in servers:
        assert printed(server, "cat /run/begun") == ["x"] * times
        assert printed(server, "cat /run/done") == ["x"]
