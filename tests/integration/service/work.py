"""Pipelines and a worker for tests of the service: real runs, with this machine standing in for every host.

What kubexm keeps on hosts goes into directories of the test; the spec's label `root` says where.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kubexm.connector import ConnectionPool, LocalConnector
from kubexm.pipeline import PIPELINES, failure_policy
from kubexm.pipeline.create import CreateCluster
from kubexm.pipeline.delete import DeleteCluster
from kubexm.pipeline.preflight import PreflightPipeline
from kubexm.plan import ExecutionGraph, FailureMode, FailurePolicy
from kubexm.runner import Runner
from kubexm.runtime import PipelineContext, StepContext, builder
from kubexm.step import NOTHING, Check, CommandRun, FilePresent, Resources, Step, resources
from kubexm.task import FragmentBuilder, NodeHandle

WORKER = (sys.executable, "-m", "tests.integration.service.work")
PLACES = {
    "create": "tests.integration.service.work:CreatePipeline",
    "delete": "tests.integration.service.work:DeletePipeline",
    "verify": "tests.integration.service.work:LookPipeline",
    "preflight": "tests.integration.service.work:LookPipeline",
}


def spec(root: Path, *, name: str = "demo", hosts: int = 2, nodes: int = 0, more: str = "") -> str:
    """A spec whose hosts stand for this machine; with `nodes`, create does nothing so often on each."""
    lines = [f"    - {{name: n{number}, address: 127.0.0.{number}}}" for number in range(1, hosts + 1)]
    return "\n".join(
        [
            "apiVersion: kubexm.io/v1alpha1",
            "kind: Cluster",
            f"metadata: {{name: {name}, labels: {{root: {root}, nodes: '{nodes}'}}}}",
            "spec:",
            "  global: {user: root, password: 'secret:login'}",
            "  hosts:",
            *lines,
            "  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1]}",
            more,
            "",
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Step):
    """Does nothing, and is run all the same."""

    def reads(self) -> Resources:
        return NOTHING

    def writes(self) -> Resources:
        return NOTHING

    async def precheck(self, ctx: StepContext) -> Check:
        return Check.unreadable()

    async def run(self, ctx: StepContext) -> None:
        return None


class CreatePipeline(CreateCluster):
    """A file, a command that waits to be let go and may fail, another file; and if asked for, many nodes of nothing."""

    accepts = frozenset()
    needs_assets = False

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One after the other, host by host."""
        labels, g = ctx.cluster.metadata.labels, FragmentBuilder("work.do")
        root, nodes = PurePosixPath(labels["root"]), int(labels.get("nodes", "0"))
        before: list[NodeHandle] = []
        for number in range(nodes):
            before = [g.add(f"n{number:04}", Nothing(), on=ctx.hosts(), after_same_host=before)]
        if not nodes:
            one = ctx.hosts()[:1]
            first = g.add("first", FilePresent(path=root / "first", content="one\n"), on=one)
            script = (
                f"echo waiting; echo to be let go; touch {root}/waiting; until [ -e {root}/go ]; do sleep 0.02; done; "
                f"[ ! -e {root}/broken ] || {{ echo fatal: it is broken, hush >&2; exit 9; }}; "
                f"echo x >>{root}/times; touch {root}/gone"
            )
            wait = CommandRun(
                command=script, name="wait to be let go", creates=root / "gone", touches=resources("thing:w")
            )
            middle = g.add("wait", wait, on=one, after=[first])
            g.add("last", FilePresent(path=root / "last", content="done\n"), on=one, after=[middle])
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


class DeletePipeline(DeleteCluster):
    """The same, by another name."""

    leaves_hosts = False
    plan = CreatePipeline.plan


class LookPipeline(PreflightPipeline):
    """Looks, and changes nothing unless it may."""

    needs_all_hosts = True

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One node."""
        root, g = PurePosixPath(ctx.cluster.metadata.labels["root"]), FragmentBuilder("look.at")
        script = f"touch {root}/looking; until [ -e {root}/seen ]; do sleep 0.02; done"
        g.add("it", CommandRun(command=script, name="look", touches=resources("thing:l")), on=ctx.hosts()[:1])
        return ExecutionGraph.build(
            self.name, g.build(), known_hosts=ctx.host_names, policy=FailurePolicy(mode=FailureMode.ISOLATE)
        )


def stand_in(base: Path) -> None:
    """From now on, in this process, every host is this machine."""

    def here(pool: ConnectionPool, host: str, *_: object, **__: object) -> LocalConnector:
        store = PurePosixPath(base / "receipts")
        found = pool._connectors.setdefault(host, LocalConnector(host, store=store))
        assert isinstance(found, LocalConnector)
        return found

    builder.Runner = lambda: Runner(PurePosixPath(base / "state"))  # type: ignore[assignment,misc,attr-defined]
    ConnectionPool.local = here  # type: ignore[method-assign,assignment]
    ConnectionPool.connector = here  # type: ignore[method-assign,assignment]
    PIPELINES.update(PLACES)


if __name__ == "__main__":
    from kubexm.service.worker import main

    stand_in(Path(sys.argv[1]) / Path(os.environ["HOME"]).name)  # hosts of its own for each cluster
    main()
