"""A few hosts that are directories: real scripts in a real shell, the real engine, and marks that are really there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from kubexm import config
from kubexm.components.pki import Pki
from kubexm.connector import Command, CommandResult
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.module import link
from kubexm.plan import ExecutionGraph, GraphExecutionResult
from kubexm.runner import ClusterMarker, Facts, Runner
from kubexm.runner.facts.parse import parse_marker
from kubexm.runtime import CONTROL_NODE, Context, HostRuntime
from kubexm.runtime.builder import plan_host
from kubexm.testing.context import memory_context
from tests.unit.step.bench import ShellConnector

HA = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts:
    - {{name: "cp[1:3]", address: "10.0.0.[11:13]"}}
    - {{name: w1, address: 192.0.2.21, internalAddress: 10.0.0.21}}
    - {{name: lb1, address: lb.example.com, internalAddress: 10.0.0.31}}
  roleGroups: {{etcd: ["cp[1:3]"], controlPlane: ["cp[1:3]"], worker: [w1], loadbalancer: [lb1]}}
{more}
"""


@dataclass
class RootedConnector(ShellConnector):
    """A host whose /etc/kubernetes is a directory of the test."""

    name: str = ""
    root: Path = field(default_factory=Path)

    @property
    def host(self) -> str:
        return self.name

    async def execute(self, command: Command) -> CommandResult:
        rooted = command.script.replace("/etc/kubernetes", f"{self.root}/etc/kubernetes")
        return await super().execute(replace(command, script=rooted))


@dataclass
class Fleet:
    """Hosts and a work directory; each `run` is a new process as far as anybody can tell."""

    root: Path
    text: str = field(default_factory=lambda: HA.format(more=""))
    unreached: tuple[str, ...] = ()
    work: str = "work"
    runs: int = 0
    connectors: dict[str, RootedConnector] = field(default_factory=dict)

    @property
    def work_dir(self) -> Path:
        return self.root / self.work

    def secret(self, name: str) -> str:
        return (self.work_dir / "secrets" / name).read_text()

    def secrets(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.work_dir / "secrets").iterdir() if path.name[0] != "."}

    def place(self, host: str, path: str, content: str) -> None:
        target = self.root / host / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def mark(self, host: str, **changes: Any) -> None:
        """Puts a mark on a host, or changes what is on it."""
        path = self.root / host / "state" / "cluster.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_text()) if path.exists() else {"roles": [], "details": {}}
        path.write_text(json.dumps({**before, **changes}))

    def marker(self, host: str) -> ClusterMarker | None:
        path = self.root / host / "state" / "cluster.json"
        return parse_marker(path.read_text()) if path.exists() else None

    def context(self) -> Context:
        """As after connecting and gathering facts."""
        cluster = config.loads(self.text, name="prod.yaml").cluster
        hosts = tuple(plan_host(entry) for entry in cluster.hosts)
        names = [host.name for host in hosts if host.name not in self.unreached]
        (self.root / "bin").mkdir(exist_ok=True)
        self.connectors = {
            name: RootedConnector(path=str(self.root / "bin"), name=name, root=self.root / name)
            for name in (*names, CONTROL_NODE)
        }
        base = memory_context(self.work_dir, self.connectors, cluster=self.text)
        runtimes = {}
        for host in (*hosts, base.control_node):
            if host.name in self.connectors:
                facts = replace(Facts.assumed(), is_assumed=False, marker=self.marker(host.name), boot_id="b")
                runner = Runner(PurePosixPath(self.root / host.name / "state"))
                runtimes[host.name] = HostRuntime(host, self.connectors[host.name], facts, runner)
        return replace(base, hosts=hosts, host_runtimes=runtimes, base_dir=self.root)

    def plan(self, context: Context | None = None) -> ExecutionGraph:
        ctx = context or self.context()
        return link(Pki).graph(ctx.pipeline_context(), name="pki")

    async def run(self, *, dry_run: bool = False) -> GraphExecutionResult:
        """Plans and carries out, from what is there now."""
        self.runs += 1
        ctx = self.context()
        journal = Journal.create(self.root / f"journal-{self.runs}")
        try:
            options = RunOptions(run=f"run-{self.runs}", journal=journal, dry_run=dry_run)
            return await LocalEngine().execute(ctx, self.plan(ctx), options)
        finally:
            await journal.close()

    @property
    def commands(self) -> int:
        """How many commands all hosts were sent in the last run."""
        return sum(len(connector.commands) for connector in self.connectors.values())
