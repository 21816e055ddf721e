"""The graphs of tasks and plans, decoded once for all who look at the same one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from kubexm.errors import NotFoundError
from kubexm.plan import ExecutionGraph, SavedPlan
from kubexm.rest.state import Server
from kubexm.store.plans import PlanRecord
from kubexm.store.tasks import Task
from kubexm.store.texts import from_json

__all__ = ["graph_of", "graph_of_plan"]

_MOST = 8


async def graph_of(server: Server, task: Task) -> ExecutionGraph:
    """The graph of a task's run; NotFoundError as long as there is none."""
    if not task.graph:
        raise NotFoundError(f"task {task.id} has no graph", hint="it appears when planning is done")
    if (known := server.graphs.get(task.graph)) is not None:
        return known
    text = await server.store.runs.graph(task.graph)
    return await _kept(server, task.graph, lambda: ExecutionGraph.from_dict(from_json(text.decode())))


async def graph_of_plan(server: Server, plan: PlanRecord) -> ExecutionGraph:
    """The graph of a plan that was made."""

    def load() -> ExecutionGraph:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "plan.kxp"
            path.write_bytes(plan.body)
            return SavedPlan.load(path).graph

    if (known := server.graphs.get(plan.digest)) is not None:
        return known
    return await _kept(server, plan.digest, load)


async def _kept(server: Server, digest: str, load: Callable[[], ExecutionGraph]) -> ExecutionGraph:
    graph = await asyncio.to_thread(load)
    if digest == graph.digest:
        server.graphs[digest] = graph
        while len(server.graphs) > _MOST:
            del server.graphs[next(iter(server.graphs))]
    return graph
