"""Routes that change something: each request leaves an entry in the audit, and one that comes twice is done once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from kubexm.errors import KubexmError
from kubexm.rest.access import Principal, authenticate
from kubexm.rest.problems import Refusal, log, respond
from kubexm.rest.state import Server, server_of
from kubexm.store.plans import KeptAnswer

__all__ = ["AuditedRoute", "RecordedRoute"]

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_NOT_AUDITED = frozenset({401, 413, 429})
_KEPT_HEADERS = ("location", "content-type", "etag")


class AuditedRoute(APIRoute):
    """A route whose changes are written down."""

    keeps_answers = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with an entry in the audit behind it."""
        handle = super().get_route_handler()

        async def recorded(request: Request) -> Response:
            if request.method not in _CHANGING:
                return await handle(request)
            try:
                response = await self._answer(request, handle)
            except Exception as error:  # noqa: BLE001 - becomes the answer, and is written down
                log(server_of(request).logger, error, f"{request.method} {request.url.path}")
                response = respond(error)
            await self._audit(request, response)
            return response

        return recorded

    async def _answer(self, request: Request, handle: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
        key = request.headers.get("idempotency-key", "")
        if not key or request.method != "POST" or not self.keeps_answers:
            return await handle(request)
        if len(key) > 200 or not key.isascii() or not key.isprintable():
            raise Refusal(422, "usage", "an Idempotency-Key is at most 200 printable characters", hint="a UUID is good")
        who, server = await authenticate(request), server_of(request)
        kept = await server.store.answers.begin(who.token.id, key, await _fingerprint(request))
        if kept is not None:
            return Response(kept.body, kept.status, {**kept.headers, "Idempotent-Replayed": "true"})
        done = False
        try:
            response = await handle(request)
            if response.status_code < 400:
                headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
                body = bytes(response.body).decode()
                await server.store.answers.end(
                    who.token.id, key, KeptAnswer(status=response.status_code, headers=headers, body=body)
                )
                done = True
            return response
        finally:
            if not done:
                await server.store.answers.drop(who.token.id, key)

    async def _audit(self, request: Request, response: Response) -> None:
        who: Principal | None = getattr(request.state, "principal", None)
        server: Server = server_of(request)
        address = request.client.host if request.client else ""
        if who is None:
            # Failed logins are recorded, a bounded number of them: nobody fills the store without a token.
            if self.name != "log_in" or response.status_code != 401 or not server.anonymous.has(f"address {address}"):
                return
        elif response.status_code in _NOT_AUDITED:
            return
        detail: dict[str, Any] = {"method": request.method}
        if location := response.headers.get("location"):
            detail["made"] = location
        if who is not None:
            detail["token"] = who.token.id
        try:
            await server.store.audit.add(
                actor=who.name if who is not None else "anonymous",
                action=self.name.replace("_", " "),
                target=request.url.path,
                outcome=str(response.status_code),
                address=address,
                detail=detail,
            )
        except KubexmError as error:  # it is done, and saying that it failed would be worse
            server.logger.warning("no audit entry for %s %s: %s", request.method, request.url.path, error.message)


class RecordedRoute(AuditedRoute):
    """A route whose answers are kept for those who ask again with the same Idempotency-Key: none holds a secret."""

    keeps_answers = True


async def _fingerprint(request: Request) -> str:
    body = await request.body()
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(head + body).hexdigest()
