"""Parts of a cluster by themselves on lab hosts: some modules planned and carried out, without the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubexm.components.milestones import HOST_READY, PKI_ISSUED
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.lab import Lab
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, GraphExecutionResult, HostResult, RunStatus
from kubexm.redact import Secret
from kubexm.runtime import Context, ModuleContext, RuntimeBuilder, StepContext, TaskContext, new_run_id
from kubexm.service.stocking import stocked
from kubexm.step import NOTHING, Check, Resources, Step
from kubexm.task import FragmentBuilder, Task

__all__ = ["HostsReady", "Outcome", "Parts", "PkiReady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands(Step):
    """Stands for what another component does, which is not needed here."""

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(True)

    def reads(self) -> Resources:
        return NOTHING

    def writes(self) -> Resources:
        return NOTHING


class _HostsReady(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("hosts.all")
        g.add("ready", Stands(), on=ctx.hosts(), provides=HOST_READY)
        return g.build()


class HostsReady(Module):
    """Lab hosts need no preparation for most programs."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_HostsReady(),)


class _PkiReady(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("pki.all")
        g.add("ready", Stands(), on=ctx.control_node, provides=PKI_ISSUED)
        return g.build()


class PkiReady(Module):
    """What the test itself put among the secrets."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_PkiReady(),)


@dataclass
class Parts:
    """Runs of some modules on the hosts of a lab, from a cluster file that tests edit."""

    lab: Lab
    bundle: Path
    directory: Path
    modules: tuple[type[Module], ...]
    spec: dict[str, Any] = field(default_factory=dict)
    """Laid over the spec of the lab's file."""
    parallel: int = 100
    runs: int = 0

    async def run(self, *, secrets: dict[str, str] | None = None) -> Outcome:
        """Plans and carries out, as `create` would."""
        self.runs += 1
        builder = RuntimeBuilder(self._file(), work_dir=str(self.directory / "work"))
        context = await builder.build()
        try:
            context = await stocked(context, builder.loaded, None, unpack=True)
            self._keep(context, secrets or {})
            planned = link(*self.modules).graph(context.pipeline_context(), name="parts")
            nodes = tuple(self.tweak(node) for node in planned.nodes.values())
            graph = ExecutionGraph.build("parts", ExecutionFragment(nodes), policy=planned.policy)
            journal = Journal.create(self.directory / f"journal-{self.runs}")
            try:
                options = RunOptions(run=new_run_id(), journal=journal)
                return Outcome(await LocalEngine(parallel=self.parallel).execute(context, graph, options))
            finally:
                await journal.close()
        finally:
            await context.close()

    def secret(self, name: str) -> Path:
        """Where a secret of the cluster is in the work directory."""
        (found,) = (self.directory / "work").rglob(f"secrets/{name}")
        return found

    def tweak(self, node: ExecutionNode) -> ExecutionNode:
        """A node as it is carried out: for tests that have less patience."""
        return node

    async def sh(self, host: str, script: str, *, check: bool = True) -> str:
        """What a script prints on a host."""
        text = script if check else f"{{ {script}\n}} || :"
        return (await asyncio.to_thread(self.lab.run, host, "sh", "-c", text, timeout=120)).strip()

    async def everywhere(self, script: str) -> list[str]:
        """What a script prints on each host."""
        return list(await asyncio.gather(*(self.sh(host.name, script) for host in self.lab.hosts)))

    def _file(self) -> Path:
        document = YAML(typ="safe").load(Path(self.lab.cluster_file).read_text())
        document["spec"] |= {"assets": {"sources": [{"bundle": str(self.bundle)}]}}
        for key, value in self.spec.items():
            below = document["spec"].get(key)
            document["spec"][key] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
        path = self.directory / "cluster.yaml"
        path.write_text(json.dumps(document))
        return path

    def _keep(self, context: Context, secrets: dict[str, str]) -> None:
        for name, text in secrets.items():
            context.secrets.put(name, Secret(text))


@dataclass
class Outcome:
    """What came of a run."""

    result: GraphExecutionResult

    def ok(self) -> Outcome:
        """Itself, if all went well."""
        failures = [f"{node} {host.host}: {host.error and host.error.message}" for node, host in self.result.failures()]
        if failures or self.result.status is not RunStatus.SUCCEEDED:
            pytest.fail("\n".join([f"the run {self.result.status}:", *failures]))
        return self

    @property
    def changed(self) -> list[tuple[str, str]]:
        """The nodes, with hosts, that changed something."""
        return [(node, host.host) for node, host in self.result.results() if host.state.value == "succeeded"]

    def at(self, node: str, host: str) -> HostResult:
        return self.result.nodes[node].hosts[host]

    def failure(self) -> tuple[str, HostResult]:
        """The first thing that failed."""
        node, host = next(iter(self.result.failures()))
        assert host.error is not None
        return node, host
