"""Routes for whoever watches the server itself."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from sqlalchemy import text

from kubexm import __version__
from kubexm.errors import StoreError
from kubexm.rest.access import Anyone, Role
from kubexm.rest.models import Health, Readiness
from kubexm.rest.problems import Refusal
from kubexm.rest.state import Server, server_of

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/health", summary="Is it there")
async def health() -> Health:
    """Answers for as long as the server lives. Needs no token."""
    return Health(version=__version__)


@router.get(
    "/ready",
    summary="Can it work",
    responses={503: {"model": Readiness, "content": {"application/json": {}}, "description": "It cannot."}},
)
async def readiness(request: Request, response: Response) -> Readiness:
    """Whether the database answers and the data directory can be written to. Needs no token."""
    server = server_of(request)
    database, disk = await _database(server), await server.disk.state()
    ready = database == disk == "ok"
    if not ready:
        response.status_code = 503
        response.headers["Retry-After"] = "5"
    return Readiness(
        ready=ready, database=database, disk=disk, running=server.tasks.running, waiting=server.tasks.waiting
    )


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, who: Anyone) -> Response:
    """In Prometheus' text format. Needs a token that may see all clusters."""
    if who.everywhere < Role.VIEWER:
        raise Refusal(403, "forbidden", "figures are of all clusters", hint="use a token with a role on `*`")
    server = server_of(request)
    figures = server.metrics
    for state, number in (await server.store.tasks.count()).items():
        figures.tasks.labels(state).set(number)
    figures.running.set(server.tasks.running)
    figures.waiting.set(server.tasks.waiting)
    figures.behind.set(server.tasks.keeper.behind)
    return Response(figures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _database(server: Server) -> str:
    try:
        async with server.store.database.read() as connection:
            await connection.execute(text("SELECT 1"))
    except StoreError:
        return "away"
    return "ok"
