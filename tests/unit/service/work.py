"""A small real pipeline for tests of the service: files on this machine, one of which may not be to be had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kubexm.errors import StepError
from kubexm.pipeline import Kind, Option, Pipeline, failure_policy
from kubexm.plan import ExecutionGraph
from kubexm.runtime import PipelineContext, StepContext
from kubexm.step import NOTHING, Check, FilePresent, Resources, Step
from kubexm.task import FragmentBuilder

CLUSTER = """
hosts:
  - {name: n1, type: local}
  - {name: n2, address: 127.0.0.2}
roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted(Step):
    """A file that somebody else makes is there; kubexm cannot make it."""

    path: str

    def writes(self) -> Resources:
        return NOTHING

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(await ctx.host.files.exists(PurePosixPath(self.path)))

    async def run(self, ctx: StepContext) -> None:
        raise StepError(f"{self.path} is not there", host=ctx.host.name, hint="make it")


class WorkPipeline(Pipeline):
    """A file on each host, after the permission, before another one."""

    name = "work"
    options = (Option(name="root", kind=Kind.TEXT, required=True, help="Where files go."),)

    def __init__(self, *, root: str) -> None:
        self._root = Path(root)

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        hosts, g = ctx.hosts(), FragmentBuilder("work.files")
        task = ctx.for_module().for_task()
        family = ",".join(task.facts(host).os.family for host in hosts)
        first = g.add("first", self._file("first", family), on=hosts[:1])
        gate = g.add("gate", Permitted(path=str(self._root / "permit")), on=hosts[:1], after=[first])
        g.add("second", self._file("second", "two"), on=hosts[1:], after=[gate])
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))

    def _file(self, name: str, content: str) -> FilePresent:
        return FilePresent(path=PurePosixPath(self._root / name), content=content)


class MarkedPipeline(WorkPipeline):
    """What the mark of each host says becomes a file there; needs assets."""

    name = "marked"
    needs_assets = True

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        g, task = FragmentBuilder("marked.files"), ctx.for_module().for_task()
        for host in ctx.hosts():
            marker = task.facts(host).marker
            content = "none" if marker is None else marker.name
            g.add(f"mark-{host.name}", self._file(f"mark-{host.name}", content), on=[host])
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


class IdlePipeline(WorkPipeline):
    """Never required."""

    name = "idle"

    def is_required(self, ctx: PipelineContext) -> bool:
        return False
