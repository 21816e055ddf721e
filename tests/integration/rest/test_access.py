"""Each role on each route; sessions and forged requests; limits; headers. A new route must be entered here."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kubexm.rest.access import COOKIE, CSRF_HEADER
from kubexm.rest.app import create_app
from kubexm.rest.state import ServerSettings
from kubexm.store.plans import PlanRecord
from kubexm.store.tasks import Task, TaskState
from tests.integration.rest.conftest import Running, StartServer, registered

VIEW, OPERATE, ADMINISTER, OPEN, ANY = "view", "operate", "administer", "open", "any"
ROUTES = {
    "GET /health": OPEN,
    "GET /ready": OPEN,
    "GET /metrics": VIEW,
    "POST /session": OPEN,
    "GET /session": ANY,
    "DELETE /session": ANY,
    "POST /validate": ANY,
    "GET /clusters": ANY,
    "POST /clusters": OPERATE,
    "GET /bundles": ANY,
    "GET /pipelines": ANY,
    "GET /clusters/{name}": VIEW,
    "DELETE /clusters/{name}": OPERATE,
    "GET /clusters/{name}/spec": VIEW,
    "PUT /clusters/{name}/spec": OPERATE,
    "GET /clusters/{name}/specs": VIEW,
    "GET /clusters/{name}/kubeconfig": OPERATE,
    "GET /clusters/{name}/facts": VIEW,
    "POST /clusters/{name}/facts": OPERATE,
    "GET /clusters/{name}/secrets": VIEW,
    "PUT /clusters/{name}/secrets/{secret}": OPERATE,
    "DELETE /clusters/{name}/secrets/{secret}": OPERATE,
    "GET /clusters/{name}/files": VIEW,
    "PUT /clusters/{name}/files/{file}": OPERATE,
    "DELETE /clusters/{name}/files/{file}": OPERATE,
    "POST /clusters/{name}/create": OPERATE,
    "POST /clusters/{name}/delete": OPERATE,
    "POST /clusters/{name}/verify": OPERATE,
    "POST /clusters/{name}/backup": OPERATE,
    "POST /clusters/{name}/probe": OPERATE,
    "POST /clusters/{name}/preflight": OPERATE,
    "POST /clusters/{name}/run": OPERATE,
    "POST /clusters/{name}/plan": OPERATE,
    "GET /clusters/{name}/plans": VIEW,
    "GET /plans/{plan}": VIEW,
    "GET /plans/{plan}/graph": VIEW,
    "GET /plans/{plan}/outline": VIEW,
    "GET /plans/{plan}/file": VIEW,
    "GET /plans/{plan}/diff": VIEW,
    "POST /plans/{plan}/apply": OPERATE,
    "GET /tasks": ANY,
    "GET /tasks/{task}": VIEW,
    "POST /tasks/{task}/cancel": OPERATE,
    "POST /tasks/{task}/resume": OPERATE,
    "GET /tasks/{task}/connecting": VIEW,
    "GET /tasks/{task}/nodes": VIEW,
    "GET /tasks/{task}/results": VIEW,
    "GET /tasks/{task}/matrix": VIEW,
    "GET /tasks/{task}/outline": VIEW,
    "GET /tasks/{task}/failures": VIEW,
    "GET /tasks/{task}/cost": VIEW,
    "GET /tasks/{task}/logs": VIEW,
    "GET /tasks/{task}/history": VIEW,
    "GET /tasks/{task}/graph": VIEW,
    "GET /tasks/{task}/timeline": VIEW,
    "GET /tasks/{task}/events": VIEW,
    "GET /tasks/{task}/logs/{node}/{host}": VIEW,
    "GET /tasks/{task}/logs/{node}/{host}/follow": VIEW,
    "GET /tokens": ADMINISTER,
    "POST /tokens": ADMINISTER,
    "GET /tokens/{token}": ADMINISTER,
    "DELETE /tokens/{token}": ADMINISTER,
    "GET /audit": ADMINISTER,
    "GET /audit/verify": ADMINISTER,
}
MAY = {
    "": {OPEN},
    "bad token": {OPEN},
    "viewer": {OPEN, ANY, VIEW},
    "demo-viewer": {OPEN, ANY, VIEW},
    "operator": {OPEN, ANY, VIEW, OPERATE},
    "demo-operator": {OPEN, ANY, VIEW, OPERATE},
    "other-admin": {OPEN, ANY},
    "admin": {OPEN, ANY, VIEW, OPERATE, ADMINISTER},
}


async def test_every_route_is_in_the_matrix(running: Running) -> None:
    paths = create_app(running.server).openapi()["paths"]
    known = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, operations in paths.items()
        for method in operations
    }
    assert known == set(ROUTES)


@pytest.mark.parametrize("who", MAY)
async def test_each_role_on_each_route(running: Running, root: Path, who: str) -> None:
    """What is not allowed is refused before anything else is looked at; what is, may fail for any other reason."""
    await registered(running, root)
    store = running.server.store
    await store.tasks.add(Task(id="t1", cluster="demo", action="create", state=TaskState.SUCCEEDED), alone=False)
    plan = {"id": "p1", "cluster": "demo", "pipeline": "create", "spec_version": 1, "created": 1.0, "created_by": "x"}
    more = {"offline": False, "changes": True, "nodes": 0, "units": 0, "digest": "", "body": b"{}"}
    await store.plans.add(PlanRecord(**plan, **more))  # type: ignore[arg-type]
    running.tokens["bad token"] = f"kx_{'a' * 12}_{'b' * 43}"
    client = running.client(who)
    places = {"name": "demo", "task": "t1", "plan": "p1", "secret": "s", "file": "f", "token": "x", "node": "a.b.c"}
    for route, need in ROUTES.items():
        method, _, path = route.partition(" ")
        url = path.format(**places, host="n1")
        if route == "POST /clusters":
            body: object = {"spec": (await store.clusters.spec("demo")).text}
        else:
            body = {} if method in ("POST", "PUT") else None
        if route == "DELETE /clusters/{name}" and need in MAY[who]:
            continue  # that it may is seen elsewhere; here the others still need the cluster
        params = {"against": "p1"} if path.endswith("/diff") else {}
        answer = await client.request(method, url, json=body, params=params)
        status = answer.status_code
        if route == "GET /metrics" and who in ("demo-viewer", "demo-operator", "other-admin"):
            assert status == 403, route
        elif need in MAY[who]:
            assert status not in (401, 403), f"{who} {route}: {answer.text}"
            assert status < 500, f"{who} {route}: {answer.text}"
        elif who in ("", "bad token"):
            assert status == 401, f"{who} {route}: {answer.text}"
            assert answer.headers["www-authenticate"] == "Bearer"
        elif who == "other-admin" and need in (VIEW, OPERATE) and route != "POST /clusters":
            assert status == 404, f"{who} {route}: what one may not see is not there: {answer.text}"
        else:
            assert status == 403, f"{who} {route}: {answer.text}"
            assert answer.json()["hint"]


async def test_lists_hold_only_what_one_may_see(running: Running, root: Path) -> None:
    await registered(running, root)
    await registered(running, root, "other")
    for name, cluster in (("t1", "demo"), ("t2", "other")):
        task = Task(id=name, cluster=cluster, action="create", state=TaskState.FAILED)
        await running.server.store.tasks.add(task, alone=False)
    client = running.client("demo-viewer")
    assert [each["name"] for each in (await client.get("/clusters")).json()["items"]] == ["demo"]
    assert [each["id"] for each in (await client.get("/tasks")).json()["items"]] == ["t1"]
    assert (await client.get("/tasks", params={"cluster": "other"})).json()["items"] == []
    taken = await running.client("demo-operator").post("/clusters", json={"spec": "x"})
    assert taken.status_code == 422
    spec = (await running.server.store.clusters.spec("other")).text.replace("name: other", "name: third")
    assert (await running.client("demo-operator").post("/clusters", json={"spec": spec})).status_code == 403


async def test_a_revoked_token_opens_nothing_from_then_on(running: Running) -> None:
    admin = running.client()
    made = await admin.post("/tokens", json={"name": "eve", "grants": {"*": "viewer"}, "expires": time.time() + 60})
    assert made.status_code == 201
    token = made.json()
    running.tokens["eve"] = token["token"]
    eve = running.client("eve")
    assert (await eve.get("/clusters")).status_code == 200
    listed = await admin.get("/tokens")
    assert token["token"].split("_", 2)[2] not in listed.text
    assert (await admin.delete(f"/tokens/{token['id']}")).json()["revoked"]
    assert (await eve.get("/clusters")).status_code == 401
    assert "kx_" not in (await admin.get("/audit")).text


async def test_the_page_logs_in_with_a_cookie_and_cannot_be_forged(running: Running, demo: str) -> None:
    page = running.client("")
    assert (await page.post("/session", json={"token": "kx_nonsense"})).status_code == 401
    login = await page.post("/session", json={"token": running.tokens["operator"]})
    assert login.status_code == 200
    cookie = login.headers["set-cookie"]
    assert all(word in cookie for word in (f"{COOKIE}=", "HttpOnly", "SameSite=strict", "Path=/"))
    assert running.tokens["operator"] not in cookie
    me = (await page.get("/session")).json()
    assert (me["name"], me["role"]) == ("operator", "operator")
    assert (await page.get("/clusters")).status_code == 200
    change = {"url": "/clusters/demo/secrets/x", "json": {"value": "v"}}
    bare = await page.put(**change)  # type: ignore[arg-type]
    assert bare.status_code == 403
    assert bare.json()["type"] == "urn:kubexm:problem:forged"
    assert (await page.put(**change, headers={CSRF_HEADER: "0" * 64})).status_code == 403  # type: ignore[arg-type]
    elsewhere = {CSRF_HEADER: me["csrf"], "Origin": "https://evil.example.com"}
    assert (await page.put(**change, headers=elsewhere)).status_code == 403  # type: ignore[arg-type]
    here = {CSRF_HEADER: me["csrf"], "Origin": running.url}
    assert (await page.put(**change, headers=here)).status_code == 204  # type: ignore[arg-type]
    assert (await page.delete("/session", headers=here)).status_code == 204
    page.cookies.set(COOKIE, cookie.split("=", 1)[1].split(";")[0])
    assert (await page.get("/session")).status_code == 401, "a session that ended cannot be used again"


async def test_headers_keep_browsers_careful(running: Running) -> None:
    answer = await running.client("").get("/health")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


async def test_health_needs_no_token_and_tells_little(running: Running) -> None:
    client = running.client("")
    assert (await client.get("/health")).json()["status"] == "ok"
    assert (await client.get("/ready")).json() == {
        "ready": True,
        "database": "ok",
        "disk": "ok",
        "running": 0,
        "waiting": 0,
    }
    figures = await running.client("viewer").get("/metrics")
    assert "kubexm_http_requests_total" in figures.text


class TestLimits:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(rate=0.001, burst=10, body=1000, upload=2000)

    async def test_too_many_requests_and_too_large_ones_are_refused(self, start: StartServer, places_url: str) -> None:
        running = await start(places_url)
        client, other = running.client("viewer"), running.client("operator")
        answers = await asyncio.gather(*(client.get("/clusters") for _ in range(15)))
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(200), statuses.count(429)) == (10, 5)
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert (await other.get("/clusters")).status_code == 200, "everybody has a limit of their own"
        large = await other.post("/validate", json={"spec": "x" * 2000})
        assert large.status_code == 413
        assert large.json()["hint"] == "at most 1000 bytes"

        async def pieces() -> object:
            for _ in range(100):
                yield b"x" * 100

        streamed = await other.post("/validate", content=pieces(), headers={"Content-Type": "application/json"})  # type: ignore[arg-type]
        assert streamed.status_code == 413

    async def test_guessing_is_slowed_down(self, start: StartServer, places_url: str) -> None:
        running = await start(places_url)
        client = running.client("")
        answers = [(await client.get("/clusters")).status_code for _ in range(40)]
        assert answers.count(401) >= 30
        assert 429 in answers
        assert (await running.client("viewer").get("/clusters")).status_code == 200
