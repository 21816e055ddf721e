"""What modules that work through the API are planned in: an API that answers, and nodes that joined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kubexm.components.api import through_api
from kubexm.components.milestones import API_READY, CLUSTER_UP, FIRST_NODES_READY, NODE_JOINED
from kubexm.components.topology import nodes
from kubexm.module import Module, link
from kubexm.plan import ExecutionFragment, ExecutionGraph
from kubexm.runtime import Context, ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task
from tests.unit.components.around import Reached


class _Api(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("api.all")
        g.add("ready", Reached(name="api"), provides=API_READY, **through_api(ctx))
        g.add("joined", Reached(name="joined"), on=nodes(ctx), provides=NODE_JOINED)
        return g.build()


class Api(Module):
    """An API that answers, and nodes that joined."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Api(),)


class _Up(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("up.all")
        g.add("up", Reached(name="up"), provides=(FIRST_NODES_READY, CLUSTER_UP), **through_api(ctx))
        return g.build()


class Up(Module):
    """A cluster that is up."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Up(),)


def api_graph(context: Context, *modules: type[Module] | Module) -> ExecutionGraph:
    """The plan of these modules once the API answers."""
    return link(Api, *modules).graph(context.pipeline_context(), name="test")


def golden(path: Path, text: str) -> None:
    """Compares with a file that is kept; KUBEXM_UPDATE_GOLDEN=1 accepts the new text."""
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new text"
