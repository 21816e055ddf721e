"""Routes that ask for something to be done with a cluster. Each answers with a task, which goes on by itself.

Every pipeline with a command has a route of its own, derived from what it declares.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from kubexm.pipeline import Pipeline, every_pipeline, refuse_local_options
from kubexm.rest.access import Anyone, ClusterName, ClusterOperator, Principal
from kubexm.rest.models import PipelineOut, PlanIn, RunIn, StartIn, TaskOut, start_model
from kubexm.rest.recording import RecordedRoute
from kubexm.rest.state import server_of
from kubexm.service.wanted import Kind, Wanted

__all__ = ["ACCEPTED", "router", "submitted"]

ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "Queued; `Location` is the task.",
        "headers": {"Location": {"schema": {"type": "string"}, "description": "The task."}},
    }
}
router = APIRouter(tags=["actions"], route_class=RecordedRoute)


@router.get("/pipelines", summary="List pipelines")
async def list_pipelines(who: Anyone) -> list[PipelineOut]:
    """What can be run, with the options of each: what pages and programs need to offer it."""
    return [PipelineOut.of(each) for each in every_pipeline() if each.summary]


def _add(pipeline: type[Pipeline]) -> None:
    """The route that starts one pipeline."""

    async def start(request: Request, response: Response, who: Any, name: str, body: Any) -> TaskOut:
        return await started(request, response, who, name, pipeline.name, body)

    start.__name__ = pipeline.name.replace("-", "_")
    start.__doc__ = pipeline.description
    start.__annotations__ |= {
        "request": Request,
        "response": Response,
        "return": TaskOut,
        "who": ClusterOperator,
        "name": ClusterName,
        "body": Annotated[start_model(pipeline), Body()],
    }
    path = f"/clusters/{{name}}/{pipeline.name}"
    router.post(path, status_code=202, responses=ACCEPTED, summary=pipeline.summary.rstrip("."))(start)


async def started(
    request: Request, response: Response, who: Principal, cluster: str, pipeline: str, body: StartIn
) -> TaskOut:
    """Queues a run."""
    body.refuse_unconfirmed(pipeline, cluster)
    return await submitted(request, response, who, Wanted(cluster=cluster, spec=body.spec(pipeline)))


for each in every_pipeline():
    if each.summary:
        _add(each)


@router.post("/clusters/{name}/run", status_code=202, responses=ACCEPTED, summary="Run any pipeline")
async def run(request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: RunIn) -> TaskOut:
    """A pipeline by its name, as the command line asks for it."""
    return await started(request, response, who, name, body.pipeline, body)


@router.post("/clusters/{name}/plan", status_code=202, responses=ACCEPTED, summary="Plan")
async def plan(request: Request, response: Response, who: ClusterOperator, name: ClusterName, body: PlanIn) -> TaskOut:
    """Plans a pipeline from the spec and the hosts' facts. When the task has succeeded, its `plan` can be looked at,
    compared and run exactly as it is."""
    wanted = Wanted(cluster=name, kind=Kind.PLAN, spec=body.spec(), offline=body.offline)
    return await submitted(request, response, who, wanted)


@router.post("/clusters/{name}/facts", status_code=202, responses=ACCEPTED, summary="Gather facts")
async def gather_facts(request: Request, response: Response, who: ClusterOperator, name: ClusterName) -> TaskOut:
    """Asks all hosts. When the task has ended, GET shows what they told."""
    return await submitted(request, response, who, Wanted(cluster=name, kind=Kind.FACTS))


async def submitted(request: Request, response: Response, who: Principal, wanted: Wanted) -> TaskOut:
    """Queues it, and says where it can be watched."""
    if wanted.spec is not None:
        refuse_local_options(wanted.spec)
    task = await server_of(request).tasks.submit(wanted, who.name)
    response.headers["Location"] = f"/api/v1/tasks/{task.id}"
    return TaskOut.of(task)
