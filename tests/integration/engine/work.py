"""A pipeline for tests that kill kubexm: changes that can be read back and changes that cannot, on several hosts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kubexm.connector import shell
from kubexm.pipeline import PIPELINES, Pipeline
from kubexm.plan import ExecutionGraph
from kubexm.runtime import PipelineContext, StepContext
from kubexm.step import Check, CommandRun, FilePresent, Resources, Step, resources
from kubexm.task import FragmentBuilder

ROOT = PurePosixPath("/run/work")
LINES = ROOT / "lines"
ROUNDS = 5
WAITS = "tests.integration.engine.work:WaitPipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAppended(Step):
    """A line was appended: once too often would show, and nothing is read back."""

    commands: ClassVar[int | None] = 1
    line: str

    def reads(self) -> Resources:
        return frozenset()

    def writes(self) -> Resources:
        return resources(f"line:{self.line}")

    async def precheck(self, ctx: StepContext) -> Check:
        return Check.unreadable()

    async def run(self, ctx: StepContext) -> None:
        await ctx.host.command.run(f"sleep 0.03; echo {shell(self.line)} >>{shell(LINES)}; sleep 0.03")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThingMade(Step):
    """A directory is there; making it again would fail."""

    path: PurePosixPath

    def reads(self) -> Resources:
        return resources(f"file:{self.path}")

    def writes(self) -> Resources:
        return resources(f"file:{self.path}")

    async def precheck(self, ctx: StepContext) -> Check:
        return Check(await ctx.host.files.exists(self.path))

    async def run(self, ctx: StepContext) -> None:
        await ctx.host.command.run(f"mkdir {shell(self.path)} && echo {shell(self.path)} >>{shell(LINES)}")


class AppendPipeline(Pipeline):
    """Rounds of changes, with a barrier after each."""

    name = "append"

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """Unreadable, readable, file: side by side and one after the other."""
        hosts, g = ctx.hosts(), FragmentBuilder("append.work")
        last = [g.add("start", FilePresent(path=ROOT / "start", content="here\n"), on=hosts)]
        for number in range(ROUNDS):
            line = g.add(f"line{number}", LineAppended(line=f"line {number}"), on=hosts, after=last)
            thing = g.add(f"thing{number}", ThingMade(path=ROOT / f"thing{number}"), on=hosts, after_same_host=last)
            file = FilePresent(path=ROOT / f"file{number}", content=f"{number}\n" * 100)
            last = [g.add(f"file{number}", file, on=hosts, after_same_host=[line, thing])]
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names)


class WaitPipeline(Pipeline):
    """One command on every host that waits to be let go, and leaves nothing to read back."""

    name = "waiting"

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One node."""
        g = FragmentBuilder("waiting.work")
        script = "echo x >>/run/begun; until [ -e /run/go ]; do sleep 0.05; done; echo x >>/run/done"
        g.add("wait", CommandRun(command=script, name="wait to be let go"), on=ctx.hosts())
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names)


if __name__ == "__main__":
    from kubexm.service.worker import main

    PIPELINES["waiting"] = WAITS
    main()
