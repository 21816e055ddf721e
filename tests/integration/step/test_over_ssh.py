"""Generic steps and the steps of docs/add-a-step.md, carried out by the engine over a real sshd.

The host has an /etc and a /var/lib of its own, in its own mount namespace, so that nothing of this machine changes.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.engine.asked import Attempts
from kubexm.engine.attempts import LocalAttempts, Output
from kubexm.errors import StepError
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, GraphExecutionResult, RunStatus, State
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import Context, RuntimeBuilder, StepContext
from kubexm.step import (
    ArchiveExtracted,
    BlockInFile,
    Check,
    CommandRun,
    DirectoryPresent,
    FileAbsent,
    FilePresent,
    FileUploaded,
    HostsEntries,
    LineInFile,
    LinkPresent,
    Step,
    UserPresent,
)
from kubexm.testing import SshServer
from tests.unit.engine.crossing import Crossing

OWN_MOUNTS = (
    "mount -t tmpfs tmpfs /var/lib",
    "mkdir /run/upper /run/work",
    "mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc",
)
CLUSTER = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: steps}}
spec:
  global: {{knownHostsFile: {known}}}
  hosts: [{{name: n1, address: {address}, port: {port}, user: root, privateKeyPath: {key}}}]
  roleGroups: {{etcd: [n1], controlPlane: [n1], worker: [n1]}}
"""
PAGE = Path(__file__).parents[3] / "docs" / "add-a-step.md"
WATCHED = ("/etc/motd", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/login.defs", "/etc/kernel-at-install")


@dataclass
class Desk:
    """A host, and plans carried out on it."""

    directory: Path
    file: Path
    server: SshServer
    runs: int = 0

    async def carry_out(
        self,
        *steps: Step,
        rollback: bool = False,
        secrets: dict[str, str] | None = None,
        attempts: Callable[[Context, Output], Attempts] = LocalAttempts,
    ) -> Any:
        """One run of these steps, one after the other."""
        self.runs += 1
        context = await self.context()
        for name, value in (secrets or {}).items():
            context.secrets.put(name, Secret(value))
        names = [f"desk.steps.s{index}" for index in range(len(steps))]
        nodes = tuple(
            ExecutionNode(id=name, step=step, hosts=("n1",), after=(names[index - 1],) if index else ())
            for index, (name, step) in enumerate(zip(names, steps, strict=True))
        )
        journal = Journal.create(self.directory / f"journal-{self.runs}")
        options = RunOptions(run=f"run-{self.runs}", journal=journal, rollback=rollback)
        try:
            graph = ExecutionGraph.build("desk", ExecutionFragment(nodes))
            return await LocalEngine(attempts=attempts).execute(context, graph, options)
        finally:
            await journal.close()
            await context.close()

    async def context(self) -> Context:
        return await RuntimeBuilder(self.file, work_dir=str(self.directory / "work")).build()

    async def sh(self, script: str) -> str:
        context = await self.context()
        try:
            return (await context.host_runtimes["n1"].command.read(script)).text
        finally:
            await context.close()


@pytest.fixture
def desk(make_sshd: Callable[..., SshServer], tmp_path: Path) -> Any:
    before = {path: Path(path).read_bytes() if Path(path).exists() else None for path in WATCHED}
    server = make_sshd(address="127.0.0.31", mounts=OWN_MOUNTS)
    file = tmp_path / "cluster.yaml"
    file.write_text(
        CLUSTER.format(known=server.known_hosts, address=server.address, port=server.port, key=server.private_key)
    )
    yield Desk(tmp_path, file, server)
    after = {path: Path(path).read_bytes() if Path(path).exists() else None for path in WATCHED}
    assert after == before, "a test changed this machine"


def states(result: GraphExecutionResult) -> list[str]:
    return [host.state.value for _, host in result.results()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible(Step):
    """Something that never comes about."""

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(False, reason="never")

    async def run(self, ctx: StepContext) -> None:
        raise StepError("it cannot be", host=ctx.host.name, hint="leave it")


def archive(path: Path) -> str:
    with tarfile.open(path, "w:gz") as tar:
        data = b"#!/bin/sh\necho tool\n"
        member = tarfile.TarInfo("tool/bin/tool")
        member.size, member.mode = len(data), 0o755
        tar.addfile(member, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_all_of_them_twice_and_undone(desk: Desk) -> None:
    digest = archive(desk.directory / "tool.tar.gz")
    etc = PurePosixPath("/etc/kubexm-test")
    steps: list[Step] = [
        DirectoryPresent(path=etc, mode=0o750),
        FilePresent(path=etc / "plain.conf", content="plain\n"),
        FilePresent(path=etc / "secret.conf", content=SecretRef("key"), mode=0o600),
        LinkPresent(path=etc / "current", target=PurePosixPath("plain.conf")),
        LineInFile(path=PurePosixPath("/etc/login.defs"), line="UMASK 027", match=r"^UMASK\b"),
        BlockInFile(path=etc / "shared.conf", name="ours", body="one\n"),
        HostsEntries(entries=(("10.0.0.1", ("n1",)),)),
        FileUploaded(
            source=str(desk.directory / "tool.tar.gz"), path=PurePosixPath("/var/lib/tool.tar.gz"), sha256=digest
        ),
        ArchiveExtracted(
            archive=PurePosixPath("/var/lib/tool.tar.gz"),
            sha256=digest,
            into=PurePosixPath("/var/lib/tool"),
            strip_components=1,
        ),
        UserPresent(name="kubexm-test", home="/var/lib/tool"),
        FileAbsent(path=PurePosixPath("/etc/issue")),
        CommandRun(command="id kubexm-test >/etc/kubexm-test/id", creates=etc / "id"),
    ]
    probe = (
        "ls -lAR --time-style=+ /etc/kubexm-test /var/lib/tool /etc/issue 2>&1; "
        "cat /etc/login.defs /etc/hosts /etc/passwd /etc/group"
    )
    before = await desk.sh(probe)
    first = await desk.carry_out(*steps, secrets={"key": "swordfish"})
    assert [(node, host.error) for node, host in first.failures()] == []
    assert set(states(first)) == {"succeeded"}
    second = await desk.carry_out(*steps, attempts=Crossing)
    assert set(states(second)) == {"satisfied"}, [host.reason for _, host in second.results()]
    assert await desk.sh("cat /etc/kubexm-test/secret.conf; /var/lib/tool/bin/tool") == "swordfishtool"
    journal = (desk.directory / "journal-1").read_text()
    assert "swordfish" not in journal

    # Undone: what a run that fails changed goes back, and only that.
    undo = steps[:-1]  # a command cannot be undone
    desk.server.stop()
    desk.server.start()  # the host as it was at first
    failed = await desk.carry_out(*undo, Impossible(), rollback=True, attempts=Crossing)
    assert failed.status is RunStatus.FAILED
    assert {host.rolled_back for _, host in failed.results() if host.state is State.SUCCEEDED} == {True}
    assert await desk.sh(probe) == before


async def test_the_walkthrough_on_a_real_host(desk: Desk) -> None:
    text = PAGE.read_text()
    page = types.ModuleType("add_a_step_on_a_host")
    sys.modules[page.__name__] = page
    try:
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            exec("from __future__ import annotations\n" + match[1], page.__dict__)
        first = await page.greet(desk.file, "run-1", desk.directory)
        second = await page.greet(desk.file, "run-2", desk.directory)
    finally:
        del sys.modules[page.__name__]
    assert first.nodes["motd.show.greeting"].state is State.SUCCEEDED
    assert set(states(second)) == {"satisfied"}
    assert await desk.sh("cat /etc/motd") == "Welcome to steps. This is n1."
