"""Routes that ask for something to be done with a cluster. Each answers with a task, which goes on by itself."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from kubexm.errors import UsageError
from kubexm.rest.access import ClusterName, ClusterOperator, Principal
from kubexm.rest.models import CreateIn, DeleteIn, PlanIn, PreflightIn, ProbeIn, RunIn, TaskOut, VerifyIn
from kubexm.rest.recording import RecordedRoute
from kubexm.rest.state import server_of
from kubexm.service.wanted import Action, Wanted

__all__ = ["ACCEPTED", "router", "submitted"]

ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "Queued; `Location` is the task.",
        "headers": {"Location": {"schema": {"type": "string"}, "description": "The task."}},
    }
}
router = APIRouter(tags=["actions"], route_class=RecordedRoute)


@router.post("/clusters/{name}/create", status_code=202, responses=ACCEPTED, summary="Create or update")
async def create(
    request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: CreateIn
) -> TaskOut:
    """Brings the cluster to what its spec says. Again and again: what is so already is left alone."""
    return await submitted(request, response, who, body.wanted(name, Action.CREATE, "create"))


@router.post("/clusters/{name}/delete", status_code=202, responses=ACCEPTED, summary="Delete")
async def delete(
    request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: DeleteIn
) -> TaskOut:
    """Gives the hosts back as they were. `confirm` is the name of the cluster."""
    if body.confirm != name:
        raise UsageError(f"to delete {name}, confirm it with its name", hint=f'send {{"confirm": "{name}"}}')
    options = {"keep_data": body.keep_data, "keep_runtime": body.keep_runtime}
    return await submitted(request, response, who, body.wanted(name, Action.DELETE, "delete", **options))


@router.post("/clusters/{name}/verify", status_code=202, responses=ACCEPTED, summary="Verify")
async def verify(
    request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: VerifyIn
) -> TaskOut:
    """Proves that the cluster works."""
    return await submitted(request, response, who, body.wanted(name, Action.VERIFY, "verify"))


@router.post("/clusters/{name}/probe", status_code=202, responses=ACCEPTED, summary="Measure availability")
async def probe(
    request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: ProbeIn
) -> TaskOut:
    """Measures what users of the cluster experience, beside whatever else is done to it. When the task has ended, its
    `cost` shows what was measured."""
    return await submitted(request, response, who, body.wanted(name))


@router.post("/clusters/{name}/preflight", status_code=202, responses=ACCEPTED, summary="Check the hosts")
async def preflight(
    request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: PreflightIn
) -> TaskOut:
    """Whether the hosts can carry the cluster: all findings at once, each with its remedy."""
    return await submitted(request, response, who, body.wanted(name, Action.PREFLIGHT, "preflight", fix=body.fix))


@router.post("/clusters/{name}/run", status_code=202, responses=ACCEPTED, summary="Run any pipeline")
async def run(request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: RunIn) -> TaskOut:
    """A pipeline by its name, with no options of its own."""
    return await submitted(request, response, who, body.wanted(name, Action.RUN, body.pipeline))


@router.post("/clusters/{name}/plan", status_code=202, responses=ACCEPTED, summary="Plan")
async def plan(request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: PlanIn) -> TaskOut:
    """Plans a pipeline from the spec and the hosts' facts. When the task has succeeded, its `plan` can be looked at,
    compared and carried out exactly as it is."""
    wanted = Wanted(
        cluster=name,
        action=Action.PLAN,
        pipeline=body.pipeline,
        options={"fix": True} if body.fix else {},
        offline=body.offline,
        only=tuple(body.only),
        skip=tuple(body.skip),
        accept_new_host_keys=body.accept_new_host_keys,
    )
    return await submitted(request, response, who, wanted)


@router.post("/clusters/{name}/facts", status_code=202, responses=ACCEPTED, summary="Gather facts")
async def gather_facts(request: Request, response: Response, who: ClusterOperator, name: ClusterName) -> TaskOut:
    """Asks all hosts. When the task has ended, GET shows what they told."""
    return await submitted(request, response, who, Wanted(cluster=name, action=Action.FACTS))


async def submitted(request: Request, response: Response, who: Principal, wanted: Wanted) -> TaskOut:
    """Queues it, and says where it can be watched."""
    task = await server_of(request).tasks.submit(wanted, who.name)
    response.headers["Location"] = f"/api/v1/tasks/{task.id}"
    return TaskOut.of(task)
