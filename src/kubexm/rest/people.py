"""Routes about who may do what: sessions of the page, tokens, the audit."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kubexm.rest.access import COOKIE, Admin, Anyone, Principal, authenticate, csrf_of
from kubexm.rest.cursors import Cursor, Limit, decode, encode
from kubexm.rest.models import (
    AuditOut,
    AuditReportOut,
    LoginIn,
    Page,
    SessionOut,
    TokenIn,
    TokenMade,
    TokenOut,
)
from kubexm.rest.problems import Refusal
from kubexm.rest.recording import AuditedRoute
from kubexm.rest.state import server_of

__all__ = ["router"]

router = APIRouter(tags=["access"], route_class=AuditedRoute)  # answers with tokens in them are never kept


@router.post("/session", summary="Log in")
async def log_in(request: Request, response: Response, body: LoginIn) -> SessionOut:
    """With a token, for the page: a cookie that scripts cannot read, and a word to send with each change."""
    server = server_of(request)
    address = request.client.host if request.client else ""
    token = await server.store.tokens.check(body.token)
    if token is None:
        server.failures.take(f"address {address}")
        raise Refusal(
            401,
            "unauthenticated",
            "this token is not valid: it is unknown, expired or revoked",
            hint="`kubexm serve token create` makes one",
            headers={"WWW-Authenticate": "Bearer"},
        )
    seconds = server.settings.session_hours * 3600
    session = (await server.store.tokens.open_session(token, seconds=seconds)).reveal()
    request.state.principal = who = Principal(token, session)
    response.set_cookie(
        COOKIE,
        session,
        max_age=int(seconds),
        path="/",
        httponly=True,
        samesite="strict",
        secure=server.settings.secure,
    )
    return _session(who)


@router.get("/session", summary="Who am I")
async def show_session(who: Anyone) -> SessionOut:
    """Name, roles, and for those with a cookie the word to send with each change."""
    return _session(who)


@router.delete("/session", status_code=204, summary="Log out")
async def log_out(request: Request, response: Response) -> None:
    """Ends the session; a token stays what it is."""
    who = await authenticate(request)
    if who.session:
        await server_of(request).store.tokens.close_session(who.session)
    response.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=server_of(request).settings.secure
    )


def _session(who: Principal) -> SessionOut:
    return SessionOut(
        name=who.name,
        token=who.token.id,
        grants=dict(who.token.grants),
        role=who.everywhere.name.lower(),
        expires=who.token.expires,
        csrf=csrf_of(who.session) if who.session else None,
    )


@router.get("/tokens", summary="List tokens")
async def list_tokens(request: Request, who: Admin) -> list[TokenOut]:
    """Who has one, for what, and when it was last used."""
    return [TokenOut.of(each) for each in await server_of(request).store.tokens.all()]


@router.post("/tokens", status_code=201, summary="Make a token")
async def make_token(request: Request, response: Response, who: Admin, body: TokenIn) -> TokenMade:
    """It is shown in this answer and never again."""
    if body.expires is not None and body.expires <= time.time():
        raise Refusal(422, "usage", "this token would have expired already", hint="`expires` is in seconds since 1970")
    made, secret = await server_of(request).store.tokens.create(
        body.name, dict(body.grants), by=who.name, expires=body.expires
    )
    response.headers["Location"] = f"/api/v1/tokens/{made.id}"
    return TokenMade(**TokenOut.of(made).model_dump(), token=secret.reveal())


@router.get("/tokens/{token}", summary="Show a token")
async def show_token(request: Request, who: Admin, token: str) -> TokenOut:
    """Without its secret."""
    return TokenOut.of(await server_of(request).store.tokens.get(_id(token)))


@router.delete("/tokens/{token}", summary="Revoke a token")
async def revoke_token(
    request: Request,
    who: Admin,
    token: str,
    force: Annotated[bool, Query(description="Also the last valid administrator token.")] = False,
) -> TokenOut:
    """It opens nothing any more; its sessions and streams end. The last valid administrator token needs `force`."""
    server = server_of(request)
    revoked = await server.store.tokens.revoke(_id(token), force=force)
    await server.guard.check()
    return TokenOut.of(revoked)


def _id(token: str) -> str:
    return token if token.isascii() and token.isalnum() else "-"


@router.get("/audit", summary="Read the audit")
async def list_audit(request: Request, who: Admin, cursor: Cursor = None, limit: Limit = 100) -> Page[AuditOut]:
    """Who did what, from where, and how it ended; the latest first."""
    place = decode(cursor, int)
    found = await server_of(request).store.audit.page(before=place[0] if place else None, limit=limit)
    items = [AuditOut.of(each) for each in found]
    return Page(items=items, next=encode(found[-1].n) if len(found) == limit else None)


@router.get("/audit/verify", summary="Check the audit")
async def verify_audit(request: Request, who: Admin) -> AuditReportOut:
    """Whether every entry is what was written, and none is missing."""
    report = await server_of(request).store.audit.verify()
    return AuditReportOut(ok=report.ok, entries=report.entries, head=report.head, problem=report.problem)
