"""kubexm killed with -9 at random points, over real sshd: resumed each time, it ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
import traceback
from pathlib import Path

import pytest

from kubexm.pipeline import PIPELINES
from kubexm.plan import RunSpec, RunStatus
from kubexm.service import ClusterService, RunFiles
from kubexm.testing import SshServer
from tests.integration.conftest import MakeServer
from tests.integration.engine.work import ROUNDS

KILLS = 50
KILLS_IN_A_RUN = 8
HOSTS = 3
OWN_STATE = (
    # What kubexm keeps below /var/lib must not be shared by hosts that are processes of one machine.
    "mkdir /run/upper /run/work-of-upper",
    "mount -t overlay -o lowerdir=/var/lib,upperdir=/run/upper,workdir=/run/work-of-upper overlay /var/lib",
)


@pytest.fixture
def append_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PIPELINES, "append", "tests.integration.engine.work:AppendPipeline")


def cluster_file(directory: Path, servers: list[SshServer], user: str) -> Path:
    sudo = "sudoPassword: env:OPS_PASSWORD" if user != "root" else ""
    known = directory / "known_hosts"
    known.write_text("".join(server.known_hosts.read_text() for server in servers))
    hosts = "\n".join(
        f"    - {{name: h{i}, address: {server.address}, port: {server.port}, privateKeyPath: {server.private_key}}}"
        for i, server in enumerate(servers)
    )
    path = directory / "cluster.yaml"
    path.write_text(
        f"""\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: killed}}
spec:
  global:
    user: {user}
    knownHostsFile: {known}
    connectionTimeout: 20s
    {sudo}
  hosts:
{hosts}
  roleGroups: {{etcd: [h0], controlPlane: [h0], worker: ["h[1:{len(servers) - 1}]"]}}
"""
    )
    return path


def in_child(work: str, file: Path, run: Path | None) -> int:
    """A child of this process that runs or resumes, so that each start costs no imports."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        service = ClusterService()
        result = asyncio.run(service.run(file, RunSpec(work)) if run is None else service.resume(run, file=file))
        code = 0 if result.status is RunStatus.SUCCEEDED else 1
        for node, host in result.failures():
            os.write(2, f"{node} {host}\n".encode())
    except BaseException:  # noqa: BLE001 - the child must never come back into pytest
        traceback.print_exc()
    finally:
        os._exit(code)


def printed(server: SshServer, command: str) -> list[str]:
    shown = subprocess.run(
        ["ssh", "-F", "none", "-i", str(server.private_key), "-p", str(server.port), "-o", "StrictHostKeyChecking=yes",
         "-o", f"UserKnownHostsFile={server.known_hosts}", f"root@{server.address}", command],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return shown.stdout.splitlines()


def lines(run: Path) -> int:
    """How many events the journal has."""
    journal = run / "journal"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_at(child: int, run: Path, events: int, jitter: float) -> bool:
    """Kills the child once its journal has that many lines; False if it was done before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return False
        if lines(run) >= events:
            break
        time.sleep(0.002)
    time.sleep(jitter)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("append_pipeline")
@pytest.mark.parametrize("user", ["root", "ops"])
def test_killed_at_random_points_and_resumed_nothing_is_lost_or_done_twice(
    user: str, make_sshd: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    monkeypatch.setenv("OPS_PASSWORD", "correct horse")
    kills = 0
    while kills < KILLS // 2:
        servers = [make_sshd(hostname=f"h{i}", mounts=OWN_STATE) for i in range(HOSTS)]
        directory = tmp_path / f"after-{kills}"
        directory.mkdir()
        file = cluster_file(directory, servers, user)
        runs = directory / ".kubexm" / "killed" / "runs"
        child = in_child("append", file, None)
        run = first_run(runs, child)
        begun = True
        for _ in range(KILLS_IN_A_RUN):
            seen = lines(run)
            if not kill_at(child, run, seen + chance.randint(1, 50), chance.uniform(0, 0.05)):
                break
            kills += 1
            begun = lines(run) > 0
            if not begun:
                break  # killed before the journal had a line: nothing was begun, nothing to resume
            child = in_child("append", file, run)
        else:
            assert not kill_at(child, run, 1_000_000, 0.0)
        if not begun:
            continue
        assert RunFiles(run).info().status == "succeeded"
        for server in servers:
            expected = [f"line {n}" for n in range(ROUNDS)] + [f"/run/work/thing{n}" for n in range(ROUNDS)]
            assert sorted(printed(server, "cat /run/work/lines")) == sorted(expected), "a change was lost or made twice"
            left = printed(server, "ls -A /run/kubexm /var/lib/kubexm/snapshots")
            assert not [name for name in left if run.name in name], "a run that succeeded leaves nothing of itself"
            server.stop()


def first_run(runs: Path, child: int) -> Path:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and Path(f"/proc/{child}").exists():
        found = [path for path in runs.iterdir() if (path / "graph.json").exists()] if runs.is_dir() else []
        if found:
            return found[0]
        time.sleep(0.002)
    raise AssertionError("the run never began")
