"""Clusters over REST: registered, edited, forgotten; what would reach into the server is refused at its line."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubexm.releases import end_of_life, minors
from kubexm.rest.state import ServerSettings
from tests.integration.rest.conftest import Running, registered
from tests.integration.service.work import spec


async def test_a_cluster_from_registration_to_removal(running: Running, root: Path) -> None:
    client = running.client("operator")
    body = {
        "spec": spec(
            root, more="  registry: {auths: {r.example.com: {username: u, password: 'secret:reg', caFile: ca.pem}}}"
        ),
        "note": "first",
        "secrets": {"login": "hush"},
        "files": {"ca.pem": base64.b64encode(b"PEM").decode()},
    }
    made = await client.post("/clusters", json=body)
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/clusters/demo"
    assert made.json() | {"created": 0, "updated": 0} == {
        "name": "demo",
        "version": 1,
        "state": "registered",
        "created": 0,
        "created_by": "operator",
        "updated": 0,
        "task": None,
        "missing_secrets": ["reg"],
        "missing_files": [],
    }
    assert (await client.post("/clusters", json=body)).status_code == 409
    refused = await client.post("/clusters/demo/create", json={})
    assert refused.status_code == 422
    assert "secret reg" in refused.json()["detail"]
    assert (await client.put("/clusters/demo/secrets/reg", json={"value": "x"})).status_code == 204
    assert (await client.get("/clusters/demo")).json()["missing_secrets"] == []
    assert [each["name"] for each in (await client.get("/clusters/demo/secrets")).json()] == ["login", "reg"]
    assert [each["size"] for each in (await client.get("/clusters/demo/files")).json()] == [3]
    edited = await client.put(
        "/clusters/demo/spec", json={"spec": spec(root, hosts=3), "version": 1, "note": "one more"}
    )
    assert edited.json()["version"] == 2
    stale = await client.put("/clusters/demo/spec", json={"spec": spec(root, hosts=4), "version": 1})
    assert stale.status_code == 409
    history = (await client.get("/clusters/demo/specs")).json()
    assert [each["version"] for each in history["items"]] == [2, 1]
    assert {(each["path"], each["kind"]) for each in history["items"][0]["edits"]} >= {("spec.hosts[n3]", "added")}
    assert (await client.get("/clusters/demo/spec", params={"version": 1})).json()["text"] == body["spec"]
    assert (await client.get("/clusters/demo/kubeconfig")).status_code == 404
    assert (await client.delete("/clusters/demo")).status_code == 204
    assert (await client.get("/clusters/demo")).status_code == 404
    assert (await client.get("/clusters")).json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("secret:login", "env:HOME", "spec.global.password"),
        ("secret:login", "file:/etc/shadow", "spec.global.password"),
        ("secret:login", "prompt", "spec.global.password"),
        ("secret:login", "hunter2", "spec.global.password"),
        ("address: 127.0.0.1", "type: local", "spec.hosts[0].type"),
        ("user: root", "user: root, knownHostsFile: /etc/passwd", "spec.global.knownHostsFile"),
        ("user: root", "usr: root", "spec.global.usr"),
    ],
)
async def test_a_spec_that_is_refused_says_where_and_leaves_nothing_behind(
    running: Running, root: Path, old: str, new: str, path: str
) -> None:
    client = running.client("operator")
    text = spec(root).replace(old, new)
    refused = await client.post("/clusters", json={"spec": text, "secrets": {"login": "x"}})
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["type"] == "urn:kubexm:problem:invalid-spec"
    found = next(each for each in problem["problems"] if each["path"] == path)
    assert found["line"] > 3
    assert found["hint"]
    assert "hunter2" not in refused.text
    checked = (await client.post("/validate", json={"spec": text})).json()
    assert not checked["valid"]
    assert path in [each["path"] for each in checked["problems"]]
    assert (await client.get("/clusters")).json()["items"] == []
    assert await running.server.store.vault.secrets("demo") == []


async def test_validating_warns_about_versions_past_upstream_support(running: Running, root: Path) -> None:
    old = min(minors(), key=end_of_life)
    assert end_of_life(old) < datetime.now(UTC).date(), "the catalog has a minor that upstream gave up"
    text = spec(root).replace("spec:\n", f"spec:\n  kubernetes: {{version: v{old}.0}}\n", 1)
    found = (await running.client("viewer").post("/validate", json={"spec": text})).json()
    assert found["valid"]
    warning = next(each for each in found["problems"] if each["path"] == "spec.kubernetes.version")
    assert warning["severity"] == "warning"
    assert "upstream support ended" in warning["message"]


async def test_validating_says_what_an_edit_comes_to(running: Running, root: Path, demo: str) -> None:
    client = running.client("viewer")
    found = (await client.post("/validate", json={"spec": spec(root, hosts=3)})).json()
    assert found["valid"]
    assert found["secrets"] == ["login"]
    assert [each["path"] for each in found["edits"]] == ["spec.hosts[n3]"]


async def test_files_are_taken_as_they_are_and_within_limits(running: Running, demo: str) -> None:
    client = running.client("operator")
    octets = {"Content-Type": "application/octet-stream"}
    put = await client.put("/clusters/demo/files/addon.yaml", content=b"\x00\xff", headers=octets)
    assert put.status_code == 204
    assert await running.server.store.vault.open_files("demo") == {"addon.yaml": b"\x00\xff"}
    wrong = await client.put("/clusters/demo/files/addon.yaml", json={})
    assert wrong.status_code == 415
    assert (await client.put("/clusters/demo/files/..%2Fx", content=b"", headers=octets)).status_code in (404, 422)
    assert (await client.put("/clusters/demo/files/.hidden", content=b"", headers=octets)).status_code == 422
    itself = await client.put("/clusters/demo/files/cluster.yaml", content=b"", headers=octets)
    assert itself.status_code == 422
    large = await client.put("/clusters/demo/files/big", content=b"x" * (9 * 2**20), headers=octets)
    assert large.status_code == 422
    assert "too large" in large.json()["detail"]
    larger = await client.put("/clusters/demo/files/big", content=b"x" * (17 * 2**20), headers=octets)
    assert larger.status_code == 413
    assert (await client.delete("/clusters/demo/files/addon.yaml")).status_code == 204
    assert (await client.delete("/clusters/demo/files/addon.yaml")).status_code == 404


async def test_clusters_by_pages(running: Running, root: Path) -> None:
    for name in ("a", "b", "c"):
        await registered(running, root, name)
    client = running.client("viewer")
    first = (await client.get("/clusters", params={"limit": 2})).json()
    assert [each["name"] for each in first["items"]] == ["a", "b"]
    second = (await client.get("/clusters", params={"limit": 2, "cursor": first["next"]})).json()
    assert [each["name"] for each in second["items"]] == ["c"]
    assert second["next"] is None
    for bad in ("x", "bnVsbA", "W10", "WzFd", "WyJcdTAwMDAiXQ"):
        refused = await client.get("/clusters", params={"cursor": bad})
        assert refused.status_code == 422, bad
        assert refused.json()["hint"]


async def test_the_server_answers_while_a_large_spec_is_checked(running: Running, root: Path) -> None:
    viewer, anybody = running.client("viewer"), running.client("")
    assert (await anybody.get("/health")).status_code == 200
    large = spec(root, hosts=250) + "".join(f"# {number}\n" for number in range(1000))
    checking = asyncio.create_task(viewer.post("/validate", json={"spec": large * 4}))
    answers = 0
    while not checking.done():
        assert (await anybody.get("/health")).status_code == 200
        answers += 1
    assert (await checking).status_code == 200
    assert answers > 10, "it went on answering"


class TestChecks:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(checks_each=1)

    async def test_a_token_has_so_many_checks_at_once(self, running: Running, root: Path) -> None:
        viewer = running.client("viewer")
        with running.server.checks.one((await viewer.get("/session")).json()["token"]):
            refused = await viewer.post("/validate", json={"spec": spec(root)})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            other = await running.client("operator").post("/validate", json={"spec": spec(root)})
            assert other.json()["valid"]
        assert (await viewer.post("/validate", json={"spec": spec(root)})).json()["valid"]
