"""Pipelines for tests of the page: small ones, over real SSH, that wait, print and fail when told to.

On a host `/run/try` says how: `go` lets the long step on, `broken` makes it fail, `full` makes unpacking fail. Run as a
program this is `kubexm` itself, with these pipelines in the place of its own; preflight stays the real one.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import PurePosixPath

from kubexm.cli.main import main
from kubexm.pipeline import PIPELINES, Edits, failure_policy
from kubexm.pipeline.create import CreateCluster
from kubexm.pipeline.delete import DeleteCluster
from kubexm.pipeline.verify import VerifyPipeline
from kubexm.plan import ExecutionGraph
from kubexm.plan.fragment import join_after, join_per_host
from kubexm.runtime import PipelineContext
from kubexm.service import tasks
from kubexm.step import CommandRun, FileAbsent, FilePresent, resources
from kubexm.task import FragmentBuilder

PLACES = {
    "create": "tests.integration.web.work:CreatePipeline",
    "delete": "tests.integration.web.work:DeletePipeline",
    "verify": "tests.integration.web.work:LookPipeline",
}
ROOT = PurePosixPath("/run/try")
FULL = rf"[ ! -e {ROOT}/full ] || {{ echo unpacking; printf '\033[1;31mno space\033[0m left\n' >&2; exit 7; }}"
UNPACK = f"mkdir -p {ROOT}; {FULL}; for part in $(seq 1 20); do echo unpacking part $part; done; touch {ROOT}/unpacked"
START = f"""
mkdir -p {ROOT}; echo starting the service; touch {ROOT}/waiting
until [ -e {ROOT}/go ]; do sleep 0.05; done
[ ! -e {ROOT}/broken ] || {{ echo 'fatal: the disk is full <b>of cats</b>' >&2; exit 9; }}
for line in $(seq 1 5); do echo "line $line of the service"; done
touch {ROOT}/started
"""


def _once(script: str, name: str, creates: str) -> CommandRun:
    return CommandRun(command=script, name=name, creates=ROOT / creates, touches=resources(f"thing:{creates}"))


class CreatePipeline(CreateCluster):
    """Files everywhere, a service on the first host and then on all, and a look at it."""

    accepts = frozenset({Edits.LIVE})
    needs_assets = False

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """Three modules, one after the other."""
        hosts, note = ctx.hosts(), ctx.cluster.metadata.labels.get("note", "none")
        g = FragmentBuilder("files.host")
        g.add("settings", FilePresent(path=ROOT / "settings", content=f"note: {note}\nkeep: true\n"), on=hosts)
        g.add("program", _once(UNPACK, "program unpacked", "unpacked"), on=hosts)
        files, g = g.build(), FragmentBuilder("service.run")
        first = g.add("first", _once(START, "service started", "started"), on=hosts[:1])
        g.add("rest", _once(f"echo joining; touch {ROOT}/joined", "service joined", "joined"), on=hosts, after=[first])
        service, g = g.build(), FragmentBuilder("check.all")
        g.add("state", _once(f"echo all is well; touch {ROOT}/well", "service well", "well"), on=hosts)
        whole = join_per_host(join_after(files, service), g.build())
        return ExecutionGraph.build(self.name, whole, known_hosts=ctx.host_names, policy=failure_policy(ctx))


class DeletePipeline(DeleteCluster):
    """Takes the files away again."""

    needs_all_hosts = True
    leaves_hosts = False

    def __init__(self, *, keep_data: bool = False, keep_runtime: bool = False) -> None:
        super().__init__(keep_data=keep_data, keep_runtime=keep_runtime)
        self.keep_data = keep_data

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One node for each file."""
        g = FragmentBuilder("removal.host")
        for name in ("settings", "unpacked", "started", "joined", "well"):
            g.add(name, FileAbsent(path=ROOT / name), on=ctx.hosts())
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


class LookPipeline(VerifyPipeline):
    """Looks, and changes nothing."""

    needs_all_hosts = True

    def __init__(self, *, probe: bool = True) -> None:
        super().__init__(probe=probe)
        self.changes = False

    def plan(self, ctx: PipelineContext) -> ExecutionGraph:
        """One node."""
        g = FragmentBuilder("look.at")
        g.add("all", CommandRun(command="uptime", name="alive", touches=resources("thing:look")), on=ctx.hosts())
        return ExecutionGraph.build(self.name, g.build(), known_hosts=ctx.host_names, policy=failure_policy(ctx))


if __name__ == "__main__":
    PIPELINES.update(PLACES)
    if sys.argv[1:] == ["worker"]:
        from kubexm.connector import ConnectionPool
        from kubexm.service.worker import main as work

        ConnectionPool.__init__.__kwdefaults__ |= {"reconnect_for": 5.0}  # type: ignore[operator]  # given up soon
        work()
    else:
        worker = (sys.executable, "-m", "tests.integration.web.work", "worker")
        tasks.TaskOptions = partial(tasks.TaskOptions, worker=worker)  # type: ignore[assignment,misc]
        main(sys.argv[1:])
