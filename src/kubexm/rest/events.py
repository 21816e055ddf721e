"""Routes that stream: a task's events, and the output of one (node, host)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path as FilePath
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Path, Query, Request, Response

from kubexm.rest.access import Anyone, TaskViewer
from kubexm.rest.models import TaskOut
from kubexm.rest.state import Server, server_of
from kubexm.rest.streams import EventStream
from kubexm.service.follow import Channel, kept_frame
from kubexm.store.tasks import Task

__all__ = ["router"]

router = APIRouter(tags=["streams"])
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
_PAGE = 1000
_BEAT = b": still here\n\n"
_LOOK = 0.1
_PIECE = 65536
LastEvent = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}(-end)?$", description="The last one that was seen."),
]
LastId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$", description="The last one that was seen."),
]
After = Annotated[int, Query(ge=0, le=2**53, description="The same, for those who cannot set headers.")]
Node = Annotated[str, Path(pattern=r"^[A-Za-z0-9._:-]{1,200}$", description="A node.", examples=["etcd.install.start"])]
Host = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$", description="A host.", examples=["n1"])]


@router.get("/tasks/{task}/events", summary="Follow a task", response_class=Response, responses=_STREAM)
async def follow_task(
    request: Request, who: Anyone, task: TaskViewer, last_event_id: LastEvent = None, after: After = 0
) -> Response:
    """Server-sent events: every event of the task's journal, as it happens. Their ids are the journal's sequence
    numbers, so whoever comes back with `Last-Event-ID` misses nothing. Between them `task` events tell the state of the
    task; `end` says that there is no more to come. Its id is `N-end`: who comes back with that gets 204, where browsers
    stop."""
    server = server_of(request)
    number, ended, _ = (last_event_id or "0").partition("-end")
    start = max(int(number), after)
    if ended and not task.active and start >= task.seq:
        return Response(status_code=204)
    return EventStream(server, who, _events(server, task, start))


@router.get(
    "/tasks/{task}/logs/{node}/{host}",
    summary="The whole output of one node and host",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def show_log(
    request: Request,
    task: TaskViewer,
    node: Node,
    host: Host,
    tail: Annotated[int, Query(ge=0, le=2**30, description="Only so many bytes at the end; 0: all.")] = 0,
) -> Response:
    """All it printed so far, as text; empty if that was nothing."""
    path = _log(server_of(request), task, node, host)
    return Response(await asyncio.to_thread(_text, path, tail), media_type="text/plain; charset=utf-8")


@router.get(
    "/tasks/{task}/logs/{node}/{host}/follow",
    summary="Follow the output of one node and host",
    response_class=Response,
    responses=_STREAM,
)
async def follow_log(
    request: Request,
    who: Anyone,
    task: TaskViewer,
    node: Node,
    host: Host,
    last_event_id: LastId = None,
    after: After = 0,
) -> Response:
    """Server-sent events of type `output`, as it is printed; their ids are byte offsets, to go on from. `end` says that
    the task is over."""
    server = server_of(request)
    start = max(int(last_event_id or 0), after)
    source = _output(server, task, _log(server, task, node, host), start)
    return EventStream(server, who, source)


# Sources


async def _events(server: Server, task: Task, after: int) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n" + _named("task", TaskOut.of(task))
    if server.tasks.is_active(task.id):
        async with server.tasks.followers.channel(task.id, server.tasks.run_files(task).journal) as channel:
            async for piece, seq in _live(server, task, channel, after):
                after = seq
                yield piece
    while found := await server.store.runs.events(task.n, after=after, limit=_PAGE):
        after = found[-1].seq
        yield b"".join(map(kept_frame, found))
    last = await server.store.tasks.get(task.id)
    end = _named("end", {"state": last.state.value, "seq": after})
    yield _named("task", TaskOut.of(last)) + b"id: %d-end\n%b" % (after, end)


async def _live(server: Server, task: Task, channel: Channel, after: int) -> AsyncIterator[tuple[bytes, int]]:
    """What the journal has and gets, until the task is over; the rest is in the store by then."""
    told = channel.changes
    while True:
        piece, after = channel.after(after)
        if piece:
            yield piece, after
            continue
        if channel.error is not None or not server.tasks.is_active(task.id):
            return
        if channel.changes != told:
            told = channel.changes
            yield _named("task", TaskOut.of(await server.store.tasks.get(task.id))), after
            continue
        try:
            async with asyncio.timeout(server.settings.heartbeat):
                await channel.wait()
        except TimeoutError:
            yield _BEAT, after


async def _output(server: Server, task: Task, path: FilePath, after: int) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    quiet = 0.0
    while True:
        over = not server.tasks.is_active(task.id)
        piece = _bytes(path, after)
        if piece:
            after += len(piece)
            text = orjson.dumps({"text": piece.decode(errors="replace"), "offset": after})
            yield b"id: %d\nevent: output\ndata: %b\n\n" % (after, text)
            quiet = 0.0
        elif over:
            yield _named("end", {"offset": after})
            return
        else:
            await asyncio.sleep(_LOOK)
            quiet += _LOOK
            if quiet >= server.settings.heartbeat:
                quiet = 0.0
                yield _BEAT


def _named(kind: str, data: object) -> bytes:
    body = data.model_dump_json().encode() if isinstance(data, TaskOut) else orjson.dumps(data)
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def _log(server: Server, task: Task, node: str, host: str) -> FilePath:
    return server.tasks.run_files(task).logs / f"{node}@{host}.log"


def _bytes(path: FilePath, after: int) -> bytes:
    """Whole lines behind an offset: a character must not be cut in two."""
    try:
        with path.open("rb") as file:
            file.seek(after)
            piece = file.read(_PIECE)
    except FileNotFoundError:
        return b""
    whole = piece.rfind(b"\n") + 1
    return piece[:whole] if whole else piece if len(piece) == _PIECE else b""


def _text(path: FilePath, tail: int) -> bytes:
    try:
        with path.open("rb") as file:
            if tail:
                file.seek(max(0, path.stat().st_size - tail))
            return file.read()
    except FileNotFoundError:
        return b""
