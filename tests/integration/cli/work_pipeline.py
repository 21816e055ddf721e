"""A pipeline for tests of the command line: a file, a command that waits to be let go, and another file."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import PurePosixPath

from kubexm.cli.main import main
from kubexm.pipeline import PIPELINES, Pipeline, failure_policy
from kubexm.pipeline.create import CreateCluster
from kubexm.pipeline.delete import DeleteCluster
from kubexm.plan import ExecutionGraph
from kubexm.runtime import PipelineContext
from kubexm.service import tasks
from kubexm.step import CommandRun, FilePresent, resources
from kubexm.task import FragmentBuilder

FIRST = PurePosixPath("/run/work/first")
LAST = PurePosixPath("/run/work/last")
WAIT = "touch /run/waiting; until [ -e /run/go ]; do sleep 0.05; done; [ ! -e /run/broken ] || { echo fatal: broken >&2; exit 9; }; touch /run/gone"  # noqa: E501 - one shell line


class WorkPipeline(Pipeline):
    """Does a little on every host."""

    name = "work"

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """Three nodes, host by host."""
        hosts, g = ctx.hosts(), FragmentBuilder("work.do")
        first = g.add("first", FilePresent(path=FIRST, content="one\ntwo\n"), on=hosts)
        wait = g.add(
            "wait",
            CommandRun(
                command=WAIT, name="wait to be let go", creates=PurePosixPath("/run/gone"), touches=resources("thing:w")
            ),
            on=hosts,
            after_same_host=[first],
        )
        g.add("last", FilePresent(path=LAST, content="done\n"), on=hosts, after_same_host=[wait])
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


class CreatePipeline(CreateCluster):
    """The same, for what `create` is on a server and here."""

    accepts = frozenset()
    needs_assets = False
    plan = WorkPipeline.plan


class DeletePipeline(DeleteCluster):
    """The same, by another name."""

    needs_all_hosts = True
    leaves_hosts = False
    plan = WorkPipeline.plan


PLACES = {
    "work": "tests.integration.cli.work_pipeline:WorkPipeline",
    "create": "tests.integration.cli.work_pipeline:CreatePipeline",
    "delete": "tests.integration.cli.work_pipeline:DeletePipeline",
}


if __name__ == "__main__":
    PIPELINES.update(PLACES)
    if sys.argv[1:] == ["worker"]:
        from kubexm.service.worker import main as work

        work()
    else:
        worker = (sys.executable, "-m", "tests.integration.cli.work_pipeline", "worker")
        tasks.TaskOptions = partial(tasks.TaskOptions, worker=worker)  # type: ignore[assignment,misc]
        main(sys.argv[1:])
