"""The application: routes under /api/v1, errors as problem documents, headers that keep browsers careful."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubexm import __version__
from kubexm.errors import KubexmError
from kubexm.rest import actions, clusters, events, health, overview, people, plans, tasks
from kubexm.rest.limits import BodyLimit
from kubexm.rest.problems import MEDIA_TYPE, Problem, log, respond
from kubexm.rest.state import Server

__all__ = ["PREFIX", "create_app"]

PREFIX = "/api/v1"
_MODULES = (health, clusters, actions, tasks, overview, events, plans, people)
_ROUTERS = (*(module.router for module in _MODULES), clusters.secret_router)
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_DESCRIPTION = """\
What `kubexm` does on the command line, for programs and for the page: the same verbs, the same words, the same runs.

Send `Authorization: Bearer TOKEN`. What is asked for runs in the background as a task: the answer is 202 with the task,
which can be followed, stopped and resumed. Errors are problem documents (RFC 9457) with a `hint` of what to do.
POST takes an `Idempotency-Key`: the same request again gets the same answer and is done once.
"""


def create_app(server: Server, *, site: ASGIApp | None = None) -> FastAPI:
    """The application of a server; `site` answers for everything outside /api, the page for example."""
    app = FastAPI(
        title="kubexm",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
        responses={
            "4XX": {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": "Refused; `hint` says what to do."},
            "5XX": {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": "The server failed."},
        },
    )
    app.state.server = server
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX)
    for kind in (KubexmError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _problem)
    settings = server.settings
    app.add_middleware(
        BodyLimit,
        most=settings.body,
        most_upload=settings.upload,
        quiet=settings.body_quiet,
        within=settings.body_within,
    )
    app.add_middleware(_Careful, server=server)
    app.mount("/", _Elsewhere(app, site))
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    server: Server = app.state.server
    await server.store.answers.drop_unfinished()
    await server.tasks.start()
    guarding = asyncio.create_task(server.guard.run())
    try:
        yield
    finally:
        guarding.cancel()
        await asyncio.gather(guarding, return_exceptions=True)
        await server.tasks.stop()
        await server.registry.close()


async def _problem(request: Request, error: Exception) -> Response:
    log(request.app.state.server.logger, error, f"{request.method} {request.url.path}")
    return respond(error)


class _Elsewhere:
    """ASGI: whatever no route answers. Below /api that is 404 or, with the methods it takes, 405."""

    def __init__(self, app: FastAPI, site: ASGIApp | None) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = scope["path"] == "/api" or scope["path"].startswith("/api/")
        if self._site is not None and not inside:
            await self._site(scope, receive, send)
            return
        methods = self._methods(scope)
        error = HTTPException(405, headers={"Allow": ", ".join(sorted(methods))}) if methods else HTTPException(404)
        await respond(error)(scope, receive, send)

    def _methods(self, scope: Scope) -> set[str]:
        below = {**scope, "path": scope["path"].removeprefix(PREFIX), "root_path": ""}
        places = [(route, below) for router in _ROUTERS for route in router.routes]
        places += [(route, {**scope, "root_path": ""}) for route in self._app.routes]
        return {
            method
            for route, place in places
            if isinstance(route, Route) and route.matches(place)[0] is not Match.NONE
            for method in route.methods or ()
        }


class _Careful:
    """ASGI: headers on every response, and figures of each."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
                if self._server.settings.secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
                self._count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, careful)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or "other"
        self._server.metrics.requests.labels(scope["method"], route, str(status)).inc()
        self._server.metrics.seconds.labels(scope["method"], route).observe(seconds)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        found["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "`kubexm serve token create` makes one."},
            "session": {"type": "apiKey", "in": "cookie", "name": "kubexm_session"},
        }
        open_to_all = {f"{PREFIX}/health", f"{PREFIX}/ready"}
        for path, operations in found["paths"].items():
            for method, operation in operations.items():
                free = path in open_to_all or (path == f"{PREFIX}/session" and method == "post")
                operation["security"] = [] if free else [{"token": []}, {"session": []}]
                for code, answer in operation["responses"].items():
                    if code in ("4XX", "5XX"):
                        answer["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        app.openapi_schema = found
    return app.openapi_schema
