"""Routes for plans: looking at them, comparing them, carrying them out exactly as they are."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from kubexm.errors import NotFoundError
from kubexm.rest.access import Anyone, ClusterName, ClusterViewer, Principal, Role
from kubexm.rest.actions import ACCEPTED, submitted
from kubexm.rest.cursors import Cursor, Limit, decode, encode
from kubexm.rest.drawing import DRAWINGS, Boxes, Drawing, diff_response, draw_response
from kubexm.rest.graphs import graph_of_plan
from kubexm.rest.models import ApplyIn, OutlineOut, Page, PlanOut, TaskOut
from kubexm.rest.overview import outline_of
from kubexm.rest.problems import Refusal
from kubexm.rest.recording import RecordedRoute
from kubexm.rest.state import Server, server_of
from kubexm.service.wanted import Kind, Wanted
from kubexm.store.plans import PlanRecord

__all__ = ["router"]

router = APIRouter(tags=["plans"], route_class=RecordedRoute)
PlanId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9-]{1,64}$", description="Id of the plan.", examples=["20261116-075341-c9f4"])
]


@router.get("/clusters/{name}/plans", summary="List plans")
async def list_plans(
    request: Request, who: ClusterViewer, name: ClusterName, cursor: Cursor = None, limit: Limit = 50
) -> Page[PlanOut]:
    """Of one cluster, the latest first."""
    place = decode(cursor, str)
    found = await server_of(request).store.plans.page(name, before=place[0] if place else None, limit=limit)
    items = [PlanOut.of(each) for each in found]
    return Page(items=items, next=encode(found[-1].id) if len(found) == limit else None)


@router.get("/plans/{plan}", summary="Show a plan")
async def show_plan(request: Request, who: Anyone, plan: PlanId) -> PlanOut:
    """What it is for and how large it is; its graph is at …/graph."""
    return PlanOut.of(await _plan(server_of(request), who, plan, Role.VIEWER))


@router.get("/plans/{plan}/graph", summary="The graph of a plan", response_class=Response, responses=DRAWINGS)
async def show_plan_graph(
    request: Request,
    who: Anyone,
    plan: PlanId,
    format: Drawing = Drawing.JSON,  # noqa: A002 - what callers call it
    collapse: Boxes | None = None,
) -> Response:
    """What would be done; as JSON, DOT, SVG, Mermaid, a tree or a table."""
    server = server_of(request)
    graph = await graph_of_plan(server, await _plan(server, who, plan, Role.VIEWER))
    return await draw_response(graph, format, collapse)


@router.get("/plans/{plan}/outline", summary="The outline of a plan")
async def show_plan_outline(request: Request, who: Anyone, plan: PlanId) -> OutlineOut:
    """Nodes and what waits for what, without contents: enough to draw it."""
    server = server_of(request)
    return await outline_of(await graph_of_plan(server, await _plan(server, who, plan, Role.VIEWER)))


@router.get(
    "/plans/{plan}/file",
    summary="The plan as a file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def take_plan(request: Request, who: Anyone, plan: PlanId) -> Response:
    """As `kubexm plan --save` writes it, for review."""
    found = await _plan(server_of(request), who, plan, Role.VIEWER)
    name = f'attachment; filename="{found.cluster}-{found.id}.kxp"'
    return Response(found.body, headers={"Content-Disposition": name}, media_type="application/octet-stream")


@router.get(
    "/plans/{plan}/diff",
    summary="What differs between two plans",
    response_class=Response,
    responses={
        200: {
            "content": {
                "application/json": {"schema": {"type": "object", "required": ["added", "removed", "changed"]}},
                **{kind: content for kind, content in DRAWINGS[200]["content"].items() if kind != "application/json"},
            }
        }
    },
)
async def diff_plans(
    request: Request,
    who: Anyone,
    plan: PlanId,
    against: Annotated[str, Query(pattern=r"^[A-Za-z0-9-]{1,64}$", description="The older plan.")],
    format: Drawing = Drawing.JSON,  # noqa: A002 - what callers call it
    collapse: Boxes | None = None,
) -> Response:
    """What the plan does that an older one did not, down to lines of contents."""
    server = server_of(request)
    new = await _plan(server, who, plan, Role.VIEWER)
    old = await _plan(server, who, against, Role.VIEWER)
    return await diff_response(await graph_of_plan(server, old), await graph_of_plan(server, new), format, collapse)


@router.post("/plans/{plan}/apply", status_code=202, responses=ACCEPTED, summary="Run a plan")
async def apply_plan(request: Request, response: Response, who: Anyone, plan: PlanId, body: ApplyIn) -> TaskOut:
    """Exactly as it is; the task fails if the spec, kubexm's version or a fact that planning read has changed."""
    found = await _plan(server_of(request), who, plan, Role.OPERATOR)
    wanted = Wanted(cluster=found.cluster, kind=Kind.APPLY, spec=body.spec(found.pipeline), plan=found.id)
    return await submitted(request, response, who, wanted)


async def _plan(server: Server, who: Principal, plan: str, wanted: Role) -> PlanRecord:
    found = await server.store.plans.get(plan)
    role = who.role_on(found.cluster)
    if role is Role.NONE:
        raise NotFoundError(f"there is no plan {plan!r}", hint="plans go with the task that made them")
    if role < wanted:
        raise Refusal(
            403,
            "forbidden",
            f"this on {found.cluster} needs the role {wanted.name.lower()}, and this token has {role.name.lower()}",
            hint="ask an administrator for a token with that role",
        )
    return found
