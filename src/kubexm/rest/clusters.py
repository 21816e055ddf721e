"""Routes for clusters: registering, specs and their history, secrets, files, facts, the kubeconfig."""

from __future__ import annotations

import base64
import binascii
import contextlib
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from kubexm.config import ConfigErrors
from kubexm.errors import NotFoundError, UsageError
from kubexm.redact import Secret
from kubexm.rest.access import Anyone, ClusterName, ClusterOperator, ClusterViewer, Role
from kubexm.rest.cursors import Cursor, Limit, decode, encode
from kubexm.rest.models import (
    BundleOut,
    ClusterIn,
    ClusterOut,
    EditOut,
    FactsOut,
    FileOut,
    Page,
    SecretIn,
    SecretOut,
    SpecIn,
    SpecOut,
    ValidateIn,
    Validation,
)
from kubexm.rest.problems import Refusal
from kubexm.rest.recording import AuditedRoute, RecordedRoute
from kubexm.rest.state import Server, server_of
from kubexm.service.troubles import trouble

__all__ = ["router", "secret_router"]

router = APIRouter(tags=["clusters"], route_class=RecordedRoute)
secret_router = APIRouter(tags=["secrets and files"], route_class=AuditedRoute)
Name = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description="Its name in the spec.", examples=["sudo"])
]


@router.post("/validate", summary="Check a spec")
async def validate_spec(request: Request, who: Anyone, body: ValidateIn) -> Validation:
    """Everything that is wrong or doubtful about a spec, each with its line; and, if there is a cluster of its name,
    what the edit comes to. Nothing is kept."""
    server = server_of(request)
    registry = server.registry
    with server.checks.one(who.token.id):
        try:
            checked = await registry.validate(body.spec, who=who.name)
        except ConfigErrors as error:
            return Validation(valid=False, name="", problems=trouble(error)["problems"])
        edits, exists = [], False
        if who.role_on(checked.name) >= Role.VIEWER:
            with contextlib.suppress(NotFoundError):
                await server.store.clusters.get(checked.name)
                exists = True
                edits = [EditOut(**each) for each in await registry.differences(checked.name, body.spec, who=who.name)]
    return Validation(
        valid=True,
        name=checked.name,
        exists=exists,
        problems=[each.as_json() for each in checked.warnings],
        secrets=sorted(checked.secrets),
        files=sorted(checked.files),
        edits=edits,
    )


@router.get("/clusters", summary="List clusters")
async def list_clusters(request: Request, who: Anyone, cursor: Cursor = None, limit: Limit = 100) -> Page[ClusterOut]:
    """By name, each with its latest task."""
    store = server_of(request).store
    place = decode(cursor, str)
    found = await store.clusters.page(after=place[0] if place else "", limit=limit, names=who.clusters)
    latest = await store.tasks.latest([each.name for each in found])
    items = [ClusterOut.of(each, latest.get(each.name)) for each in found]
    return Page(items=items, next=encode(found[-1].name) if len(found) == limit else None)


@router.post("/clusters", status_code=201, summary="Register a cluster")
async def register_cluster(request: Request, response: Response, who: Anyone, body: ClusterIn) -> ClusterOut:
    """Keeps the spec, and secrets and files it names. Nothing is done on any host. The spec may name only stored
    secrets (`secret:NAME`) and uploaded files; what would be read on the server is refused, each at its line."""
    server = server_of(request)
    with server.checks.one(who.token.id):
        name = (await server.registry.validate(body.spec, who=who.name)).name
    _refuse_registering(who.role_on(name), name)
    made = await server.registry.register(
        body.spec,
        by=who.name,
        note=body.note,
        secrets={name: Secret(value) for name, value in body.secrets.items()},
        files={name: _decoded(name, value) for name, value in body.files.items()},
    )
    response.headers["Location"] = f"/api/v1/clusters/{made.name}"
    return await _shown(server, made.name)


@router.get("/clusters/{name}", summary="Show a cluster")
async def show_cluster(request: Request, who: ClusterViewer, name: ClusterName) -> ClusterOut:
    """With its latest task, and what its spec names that was not uploaded yet."""
    return await _shown(server_of(request), name)


@router.delete("/clusters/{name}", status_code=204, summary="Forget a cluster")
async def forget_cluster(
    request: Request,
    who: ClusterOperator,
    name: ClusterName,
    force: Annotated[bool, Query(description="Also if it still exists on its hosts.")] = False,
) -> None:
    """Removes it from the server, with specs, secrets and files. On its hosts nothing changes: for that there is
    POST …/delete."""
    await server_of(request).registry.remove(name, force=force)


@router.get("/clusters/{name}/spec", summary="Show the spec")
async def show_spec(
    request: Request,
    who: ClusterViewer,
    name: ClusterName,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="An older one.")] = None,
) -> SpecOut:
    """The newest version, or another."""
    return SpecOut.of(await server_of(request).store.clusters.spec(name, version))


@router.put("/clusters/{name}/spec", summary="Edit the spec")
async def edit_spec(request: Request, who: ClusterOperator, name: ClusterName, body: SpecIn) -> ClusterOut:
    """Keeps a further version. Refused while a task changes the cluster."""
    server = server_of(request)
    with server.checks.one(who.token.id):
        await server.registry.edit(name, body.spec, by=who.name, note=body.note, on=body.version)
    return await _shown(server, name)


@router.get("/clusters/{name}/specs", summary="List versions of the spec")
async def list_specs(
    request: Request, who: ClusterViewer, name: ClusterName, cursor: Cursor = None, limit: Limit = 50
) -> Page[SpecOut]:
    """The newest first, each with who changed what."""
    place = decode(cursor, int)
    found = await server_of(request).store.clusters.specs(name, before=place[0] if place else None, limit=limit)
    items = [SpecOut.of(each) for each in found]
    return Page(items=items, next=encode(found[-1].version) if len(found) == limit else None)


@router.get(
    "/clusters/{name}/kubeconfig",
    summary="Take the kubeconfig",
    response_class=Response,
    responses={200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}},
)
async def take_kubeconfig(request: Request, who: ClusterOperator, name: ClusterName) -> Response:
    """The administrator's, so it is for operators only; taking it is written down in the audit."""
    server = server_of(request)
    text = await server.registry.kubeconfig(name)
    await server.store.audit.add(
        actor=who.name,
        action="take kubeconfig",
        target=request.url.path,
        outcome="200",
        address=request.client.host if request.client else "",
        detail={"token": who.token.id},
    )
    return Response(text, media_type="application/yaml")


@router.get("/clusters/{name}/facts", summary="Show the hosts' facts")
async def show_facts(request: Request, who: ClusterViewer, name: ClusterName) -> list[FactsOut]:
    """What each host last told about itself. POST gathers them anew."""
    server = server_of(request)
    await server.store.clusters.get(name)
    found = await server.store.clusters.facts(name)
    return [FactsOut(host=each.host, time=each.time, facts=each.facts, error=each.error) for each in found]


@router.get("/bundles", summary="List bundles")
async def list_bundles(request: Request, who: Anyone) -> list[BundleOut]:
    """Bundles on the server, which a spec may name in assets.sources."""
    server = server_of(request)
    return [
        BundleOut(name=name, size=(server.places.bundles / name).stat().st_size)
        for name in sorted(server.registry.bundles())
    ]


# Secrets and files


@secret_router.get("/clusters/{name}/secrets", summary="List secrets")
async def list_secrets(request: Request, who: ClusterViewer, name: ClusterName) -> list[SecretOut]:
    """Which there are; never what they are."""
    server = server_of(request)
    await server.store.clusters.get(name)
    return [
        SecretOut(name=each.name, created=each.created, created_by=each.created_by)
        for each in await server.store.vault.secrets(name)
    ]


@secret_router.put("/clusters/{name}/secrets/{secret}", status_code=204, summary="Store a secret")
async def store_secret(request: Request, who: ClusterOperator, name: ClusterName, secret: Name, body: SecretIn) -> None:
    """In place of an older one of that name. It is sealed, and never comes out again but to tasks of this cluster."""
    await server_of(request).registry.put_secret(name, secret, Secret(body.value), by=who.name)


@secret_router.delete("/clusters/{name}/secrets/{secret}", status_code=204, summary="Forget a secret")
async def forget_secret(request: Request, who: ClusterOperator, name: ClusterName, secret: Name) -> None:
    """Removes it."""
    await server_of(request).store.vault.remove_secret(name, secret)


@secret_router.get("/clusters/{name}/files", summary="List files")
async def list_files(request: Request, who: ClusterViewer, name: ClusterName) -> list[FileOut]:
    """Which were uploaded."""
    server = server_of(request)
    await server.store.clusters.get(name)
    return [
        FileOut(name=each.name, size=each.size, created=each.created, created_by=each.created_by)
        for each in await server.store.vault.files(name)
    ]


@secret_router.put(
    "/clusters/{name}/files/{file}",
    status_code=204,
    summary="Upload a file",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload_file(request: Request, who: ClusterOperator, name: ClusterName, file: Name) -> None:
    """The body is the file. It is sealed, and lies open only while a task of this cluster is under way."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/octet-stream":
        raise Refusal(
            415,
            "media-type",
            "the body of an upload is the file itself",
            hint="send it as application/octet-stream",
        )
    await server_of(request).registry.put_file(name, file, await request.body(), by=who.name)


@secret_router.delete("/clusters/{name}/files/{file}", status_code=204, summary="Forget a file")
async def forget_file(request: Request, who: ClusterOperator, name: ClusterName, file: Name) -> None:
    """Removes it. Refused while a task changes the cluster."""
    await server_of(request).registry.remove_file(name, file)


async def _shown(server: Server, name: str) -> ClusterOut:
    record = await server.store.clusters.get(name)
    missing = await server.registry.missing(name)
    latest = await server.store.tasks.latest([name])
    return ClusterOut.of(
        record, latest.get(name), missing_secrets=list(missing.secrets), missing_files=list(missing.files)
    )


def _refuse_registering(role: Role, name: str) -> None:
    if role < Role.OPERATOR:
        raise Refusal(
            403,
            "forbidden",
            f"registering {name} needs the role operator on it, and this token has {role.name.lower()}",
            hint="ask an administrator for a token with that role",
        )


def _decoded(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise UsageError(f"the file {name!r} is not base64", hint="encode its bytes, or upload it by itself") from None
