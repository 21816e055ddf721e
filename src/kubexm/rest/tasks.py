"""Routes for tasks: listing, stopping, resuming, results, logs, graph and timeline."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kubexm.events import EventKind
from kubexm.plan import ExecutionGraph, HostResult, NodeResult, State
from kubexm.rest.access import Anyone, Role, TaskOperator, TaskViewer
from kubexm.rest.actions import ACCEPTED
from kubexm.rest.cursors import Cursor, Limit, decode, encode
from kubexm.rest.drawing import DRAWINGS, Boxes, Drawing, draw_response
from kubexm.rest.graphs import graph_of
from kubexm.rest.models import (
    ConnectingOut,
    EventOut,
    HostResultOut,
    NodeResultOut,
    Page,
    SpanOut,
    StepLogOut,
    TaskOut,
    TimelineOut,
)
from kubexm.rest.recording import RecordedRoute
from kubexm.rest.state import server_of
from kubexm.store.tasks import TaskState
from kubexm.store.texts import clean, from_json

__all__ = ["router"]

router = APIRouter(tags=["tasks"], route_class=RecordedRoute)
Place = Annotated[
    str, Query(max_length=300, pattern=r"^[A-Za-z0-9._@:-]*$", description="A node, task or module.", examples=["etcd"])
]
HostName = Annotated[str, Query(max_length=100, pattern=r"^[A-Za-z0-9._-]*$", description="A host.", examples=["n1"])]
Sought = Annotated[str, Query(max_length=200, description="Text to look for.")]


class UnitState(StrEnum):
    """Final states of a (node, host)."""

    SUCCEEDED = "succeeded"
    SATISFIED = "satisfied"
    FAILED = "failed"
    BLOCKED = "blocked"
    EXCLUDED = "excluded"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


States = Annotated[list[UnitState], Query(max_length=7, description="Only in one of these states.")]


@router.get("/tasks", summary="List tasks")
async def list_tasks(
    request: Request,
    who: Anyone,
    cluster: Annotated[str, Query(max_length=63, pattern=r"^[a-z0-9-]*$", description="Only of this cluster.")] = "",
    state: Annotated[list[TaskState], Query(max_length=7, description="Only in one of these states.")] = [],  # noqa: B006
    action: Annotated[str, Query(max_length=32, pattern=r"^[a-z-]*$", description="Only of this kind.")] = "",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[TaskOut]:
    """The latest first; only of clusters one may see."""
    clusters = who.clusters
    if cluster:
        clusters = [cluster] if who.role_on(cluster) >= Role.VIEWER else []
    place = decode(cursor, int)
    found = await server_of(request).store.tasks.page(
        before=place[0] if place else None,
        limit=limit,
        clusters=clusters,
        states=state,
        actions=[action] if action else [],
    )
    items = [TaskOut.of(task) for task in found]
    return Page(items=items, next=encode(found[-1].n) if len(found) == limit else None)


@router.get("/tasks/{task}", summary="Show a task")
async def show_task(task: TaskViewer) -> TaskOut:
    """How far it came."""
    return TaskOut.of(task)


@router.get("/tasks/{task}/connecting", summary="How far hosts are")
async def show_connecting(request: Request, task: TaskViewer) -> ConnectingOut:
    """While a task is planned: how many hosts are connected and have told their facts, and which are waited for."""
    return ConnectingOut.of(server_of(request).tasks.hosts(task.id))


@router.post("/tasks/{task}/cancel", status_code=202, responses=ACCEPTED, summary="Stop a task")
async def cancel_task(request: Request, response: Response, task: TaskOperator) -> TaskOut:
    """Once: it finishes what it is at and starts nothing. Again: it stops now."""
    found = await server_of(request).tasks.cancel(task.id)
    response.headers["Location"] = f"/api/v1/tasks/{task.id}"
    return TaskOut.of(found)


@router.post("/tasks/{task}/resume", status_code=202, responses=ACCEPTED, summary="Resume a task")
async def resume_task(request: Request, response: Response, who: Anyone, task: TaskOperator) -> TaskOut:
    """Goes on where it stopped: the same task, the same run, and nothing that is done is done again."""
    found = await server_of(request).tasks.resume(task.id, who.name)
    response.headers["Location"] = f"/api/v1/tasks/{task.id}"
    return TaskOut.of(found)


# What happened


@router.get("/tasks/{task}/nodes", summary="Results by node")
async def list_node_results(request: Request, task: TaskViewer) -> list[NodeResultOut]:
    """Every node of which some host has ended, with how many hosts are in each state."""
    return [NodeResultOut.of(each) for each in await server_of(request).store.runs.node_results(task.n)]


@router.get("/tasks/{task}/results", summary="Results by node and host")
async def list_results(
    request: Request,
    task: TaskViewer,
    node: Place = "",
    host: HostName = "",
    state: States = [],  # noqa: B006
    cursor: Cursor = None,
    limit: Limit = 500,
) -> Page[HostResultOut]:
    """How each (node, host) ended, with its error, remedy and root cause; in a dry run what would be changed."""
    place = decode(cursor, str, str)
    after = (place[0], place[1]) if place else None
    found = await server_of(request).store.runs.host_results(
        task.n, after=after, limit=limit, node=node, host=host, states=state
    )
    items = [HostResultOut.of(each) for each in found]
    return Page(items=items, next=encode(found[-1].node, found[-1].host) if len(found) == limit else None)


@router.get("/tasks/{task}/logs", summary="Logs")
async def list_logs(
    request: Request,
    task: TaskViewer,
    node: Place = "",
    host: HostName = "",
    state: States = [],  # noqa: B006
    text: Sought = "",
    tail: Annotated[bool, Query(description="The latest ones, instead of from the beginning.")] = False,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[StepLogOut]:
    """What steps printed, in order of their ends; by node, host, state and text. Head and tail of long output."""
    place = decode(cursor, int)
    found = await server_of(request).store.runs.step_logs(
        task.n,
        after=place[0] if place else 0,
        limit=limit,
        node=node,
        host=host,
        states=state,
        contains=clean(text),
        latest=tail,
    )
    items = [StepLogOut.of(each) for each in found]
    return Page(items=items, next=encode(found[-1].seq) if len(found) == limit and not tail else None)


@router.get("/tasks/{task}/history", summary="Events as a list")
async def list_events(
    request: Request,
    task: TaskViewer,
    after: Annotated[int, Query(ge=0, le=2**53, description="A sequence number.")] = 0,
    kind: Annotated[list[EventKind], Query(max_length=20, description="Only of one of these kinds.")] = [],  # noqa: B006
    limit: Limit = 500,
) -> list[EventOut]:
    """The events that are in the store, behind a sequence number. To be told as they happen, follow `events`."""
    found = await server_of(request).store.runs.events(task.n, after=after, limit=limit, kinds=kind)
    return [
        EventOut(
            seq=each.seq, time=each.time, kind=each.kind, node=each.node, host=each.host, data=from_json(each.data)
        )
        for each in found
    ]


@router.get("/tasks/{task}/graph", summary="The graph", response_class=Response, responses=DRAWINGS)
async def show_graph(
    request: Request,
    task: TaskViewer,
    format: Drawing = Drawing.JSON,  # noqa: A002 - what callers call it
    collapse: Boxes | None = None,
) -> Response:
    """What is executed, with how far it came; as JSON, DOT, SVG, Mermaid, a tree or a table."""
    server = server_of(request)
    graph = await graph_of(server, task)
    results = _results(graph, await server.store.runs.states(task.n))
    return await draw_response(graph, format, collapse, results, outcome=task.state.value)


@router.get("/tasks/{task}/timeline", summary="The timeline")
async def show_timeline(request: Request, task: TaskViewer) -> TimelineOut:
    """Where the time went, with the critical path marked."""
    server = server_of(request)
    graph = await graph_of(server, task)
    times = await server.store.runs.times(task.n)
    return await asyncio.to_thread(_timeline, graph, times)


def _results(graph: ExecutionGraph, states: list[tuple[str, str, str]]) -> dict[str, NodeResult]:
    hosts: dict[str, dict[str, HostResult]] = {}
    for node, host, state in states:
        hosts.setdefault(node, {})[host] = HostResult(host=host, state=State(state))
    return {
        name: NodeResult(name, graph.nodes[name].step.describe(), each)
        for name, each in hosts.items()
        if name in graph.nodes
    }


def _timeline(graph: ExecutionGraph, times: list[tuple[str, str, str, float, float, float]]) -> TimelineOut:
    from kubexm.plan import Span, timeline_of

    found = timeline_of(
        graph,
        (
            Span(node=node, host=host, state=state, started=started, ended=ended, busy=busy)
            for node, host, state, started, ended, busy in times
        ),
    )
    critical = {(span.node, span.host) for span in found.chain}
    spans = [
        SpanOut.model_construct(  # of our own making: there is nothing to check in a hundred thousand of them
            node=span.node,
            host=span.host,
            state=span.state,
            started=span.started,
            ended=span.ended,
            busy=span.busy,
            critical=(span.node, span.host) in critical,
        )
        for span in found.spans
    ]
    return TimelineOut.model_construct(
        started=found.started, ended=found.ended, longest=found.longest, added=found.added, spans=spans
    )
