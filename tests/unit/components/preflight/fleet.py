"""Hosts that exist as facts only, and preflight run over them as a user would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubexm import config
from kubexm.connector import Command
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.pipeline.preflight import PreflightPipeline
from kubexm.plan import GraphExecutionResult, HostResult, State
from kubexm.runner import Facts
from kubexm.runner.facts.model import Network
from kubexm.runtime import Context, HostRuntime
from kubexm.runtime.builder import plan_host
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.config.files import pinned

HA = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  hosts:
    - {{name: "cp[1:3]", address: "10.0.0.[11:13]"}}
    - {{name: "w[1:2]", address: "10.0.0.[21:22]"}}
  roleGroups:
    etcd: ["cp[1:3]"]
    controlPlane: ["cp[1:3]"]
    worker: ["w[1:2]"]
{more}"""


def cluster(more: str = "") -> str:
    """Three control planes with etcd, two workers, and more lines of spec."""
    return HA.format(more="".join(f"  {line}\n" for line in more.splitlines()))


def good_facts(name: str, address: str) -> Facts:
    """A host nobody could find fault with."""
    facts = Facts.assumed(hostname=name, address=address)
    interface = replace(facts.network.interfaces[0], mac=f"52:54:00:00:00:{address.rpartition('.')[2]}")
    network = Network(interfaces=(interface,), route4=facts.network.route4, nameservers=("10.0.0.1",))
    return replace(facts, is_assumed=False, machine_id=f"id-of-{name}", network=network)


def default_reach(command: Command) -> str:
    tries = re.findall(r"^kx_try (\d+) ", command.script, re.MULTILINE)
    return "".join(f"{index} refused\n" for index in tries)


@dataclass
class Fleet:
    """The hosts of a cluster."""

    text: str = field(default_factory=cluster)
    facts: dict[str, Facts] = field(default_factory=dict)
    reach: Callable[[Command], str] = default_reach
    writable: str = ""
    lookups: str = "0 2\n"
    full: Mapping[str, str] = field(default_factory=dict)
    """Data directories that are not empty."""
    begun: frozenset[str] = frozenset()
    """Hosts on which kubexm keeps how things were: it was stopped there."""
    connectors: dict[str, MemoryConnector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for host in config.loads(self.text, name="test.yaml").cluster.hosts:
            self.facts.setdefault(host.name, good_facts(host.name, host.address))

    def change(self, *hosts: str, **more: Any) -> Fleet:
        """Other facts for these hosts."""
        for host in hosts:
            self.facts[host] = replace(self.facts[host], **more)
        return self

    def part(self, host: str, part: str, **more: Any) -> Fleet:
        """Another value inside a part of a host's facts."""
        return self.change(host, **{part: replace(getattr(self.facts[host], part), **more)})

    def context(self, work_dir: Path) -> Context:
        self.connectors = {name: self._connector(name) for name in self.facts}
        base = memory_context(work_dir, self.connectors, facts=self.facts, cluster=pinned(self.text))
        hosts = tuple(plan_host(entry) for entry in base.cluster.hosts)
        runtimes = {
            host.name: HostRuntime(host, self.connectors[host.name], self.facts[host.name], base.runner)
            for host in hosts
        }
        return replace(base, hosts=hosts, host_runtimes=runtimes)

    async def preflight(
        self, work_dir: Path, *, uid: str = "", read_ahead: bool = True, dry_run: bool = False
    ) -> Report:
        """All findings."""
        work_dir.mkdir(exist_ok=True)
        context = self.context(work_dir / "work")
        if uid:
            (context.work_dir.path / "uid").write_text(uid)
        graph = PreflightPipeline().plan(context.pipeline_context())
        journal = Journal.create(work_dir / "journal")
        try:
            result = await LocalEngine(read_ahead=read_ahead).execute(
                context, graph, RunOptions(run="r1", journal=journal, dry_run=dry_run)
            )
        finally:
            await journal.close()
        return Report(result)

    def _connector(self, name: str) -> MemoryConnector:
        connector = MemoryConnector(name)
        connector.on(re.compile(r"(?s).*kx_try.*"), callback=lambda command: self.reach(command))
        connector.on(re.compile(r"(?s).*findmnt.*"), stdout=self.writable)
        connector.on(re.compile(r"(?s).*getent ahosts.*"), stdout=self.lookups)
        connector.on(re.compile(r"(?s).*ls -A.*"), stdout=self.full.get(name, ""))
        connector.on(re.compile(r"(?s).*kubexm/originals.*"), exit_code=0 if name in self.begun else 1)
        return connector


@dataclass
class Report:
    """What came of it."""

    result: GraphExecutionResult

    def at(self, check: str, host: str) -> HostResult:
        node = next(node for node in self.result.nodes.values() if node.id.endswith(f".{check}"))
        return node.hosts[host]

    @property
    def errors(self) -> Mapping[tuple[str, str], tuple[str, str]]:
        """Messages and hints by (check, host)."""
        return {
            (node.rpartition(".")[2], host.host): (host.error.message, host.error.hint)
            for node, host in self.result.results()
            if host.state is State.FAILED and host.error is not None
        }

    @property
    def warnings(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        return {
            (node.rpartition(".")[2], host.host): host.warnings for node, host in self.result.results() if host.warnings
        }
