"""Routes for those who show all of a task at once: the page above all. Much in little space, contents left out."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from kubexm.events import EventKind
from kubexm.plan import ExecutionGraph, State
from kubexm.plan.render import telling_edges
from kubexm.rest.access import TaskViewer
from kubexm.rest.graphs import graph_of
from kubexm.rest.models import CostOut, FailureOut, MatrixOut, OutlineNode, OutlineOut
from kubexm.rest.recording import RecordedRoute
from kubexm.rest.state import server_of
from kubexm.store.texts import from_json

__all__ = ["outline_of", "router"]

router = APIRouter(tags=["tasks"], route_class=RecordedRoute)
_LETTERS = {state.value: state.value[0] for state in State} | {
    "satisfied": "=",
    "cancelled": "c",
    "blocked": "b",
    "running": "r",
}


@router.get("/tasks/{task}/matrix", summary="Results as a matrix")
async def show_matrix(request: Request, task: TaskViewer) -> MatrixOut:
    """Every (node, host) at once, in little space: for pages that show all of them. What a resume tries again counts
    as not ended."""
    server = server_of(request)
    graph = await graph_of(server, task)
    fresh = await server.store.tasks.get(task.id)  # its seq before the states: what came in between is told again
    states = await server.store.runs.standing(task.n, resumed=fresh.resumed > 0, running=fresh.active)
    return await asyncio.to_thread(_matrix, graph, states, fresh.seq)


@router.get("/tasks/{task}/outline", summary="The graph's outline")
async def show_outline(request: Request, task: TaskViewer) -> OutlineOut:
    """Nodes and what waits for what, without contents: enough to draw it. Links that follow from others are left
    out."""
    return await outline_of(await graph_of(server_of(request), task))


@router.get("/tasks/{task}/failures", summary="What failed")
async def list_failures(request: Request, task: TaskViewer) -> list[FailureOut]:
    """Every root cause once, with its error, its remedy and how much it blocks; at most 200 of them."""
    server = server_of(request)
    found = await server.store.runs.failures(task.n, resumed=task.resumed > 0)
    return [FailureOut.of(record, blocked=blocked) for record, blocked in found]


@router.get("/tasks/{task}/cost", summary="What it cost")
async def show_cost(request: Request, task: TaskViewer) -> CostOut:
    """What users of the cluster experienced during the run, with every miss by its cause; null if nothing was
    measured. Appears when the run has ended."""
    found = await server_of(request).store.runs.events(task.n, kinds=[EventKind.RUN_COST])
    return CostOut(cost=from_json(found[-1].data) if found else None)


async def outline_of(graph: ExecutionGraph) -> OutlineOut:
    """In a thread: a large graph takes its time."""
    return await asyncio.to_thread(_outline, graph)


def _outline(graph: ExecutionGraph) -> OutlineOut:
    place = {name: number for number, name in enumerate(graph.nodes)}
    return OutlineOut(
        name=graph.name,
        units=graph.units,
        hosts=len(graph.hosts),
        nodes=[
            OutlineNode(
                id=node.id,
                does=node.step.describe(),
                hosts=len(node.hosts),
                host=node.hosts[0] if len(node.hosts) == 1 else None,
                optional=node.optional,
                on_demand=node.on_demand,
                closes=node.closes or None,
                excluded=node.excluded or None,
            )
            for node in graph.nodes.values()
        ],
        links=[(place[edge.source], place[edge.target], edge.same_host) for edge in telling_edges(graph)],
    )


def _matrix(graph: ExecutionGraph, states: list[tuple[str, str, str]], seq: int) -> MatrixOut:
    hosts = {name: number for number, name in enumerate(graph.hosts)}
    rows = {name: ["."] * len(hosts) for name in graph.nodes}
    for node in graph.nodes.values():
        row = rows[node.id]
        for host in node.hosts:
            row[hosts[host]] = "-"
    for name, host, state in states:
        if name in rows and host in hosts:
            rows[name][hosts[host]] = _LETTERS[state]
    return MatrixOut(
        nodes=list(graph.nodes),
        hosts=list(hosts),
        letters={letter: state for state, letter in _LETTERS.items()},
        rows=["".join(row) for row in rows.values()],
        seq=seq,
    )
