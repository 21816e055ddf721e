"""The graphs of tasks and plans, decoded once for all who look at the same one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from kubexm.errors import NotFoundError
from kubexm.plan import ExecutionGraph, SavedPlan
from kubexm.plan.told import graph_as_known
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

    async def load() -> ExecutionGraph:
        text = await server.store.runs.graph(task.graph)
        return await asyncio.to_thread(lambda: graph_as_known(from_json(text.decode())))

    return await _once(server, task.graph, load)


async def graph_of_plan(server: Server, plan: PlanRecord) -> ExecutionGraph:
    """The graph of a plan that was made."""

    def read() -> ExecutionGraph:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "plan.kxp"
            path.write_bytes(plan.body)
            return SavedPlan.load(path).graph

    return await _once(server, f"plan {plan.id}", lambda: asyncio.to_thread(read))


async def _once(server: Server, name: str, load: Callable[[], Awaitable[ExecutionGraph]]) -> ExecutionGraph:
    """Loads it, unless it is known; those who ask meanwhile wait for the same one."""
    graphs = server.graphs
    if name not in graphs:
        graphs[name] = asyncio.ensure_future(load())
        while len(graphs) > _MOST:
            del graphs[next(iter(graphs))]
    work = graphs[name]
    try:
        return await asyncio.shield(work)
    except Exception:
        if graphs.get(name) is work:
            del graphs[name]
        raise
