"""Tasks over REST, on both databases: from 202 to results, logs, graph and timeline; conflicts; plans; facts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.rest.conftest import Running, StartServer, ended, registered, until
from tests.unit.runtime.clusters import needs_root

pytestmark = needs_root


async def test_a_run_from_request_to_every_way_of_looking_at_it(
    start: StartServer, database_url: str, root: Path
) -> None:
    running = await start(database_url)
    await registered(running, root)
    client = running.client("operator")
    asked = await client.post("/clusters/demo/create", json={})
    assert asked.status_code == 202, asked.text
    task = asked.json()["id"]
    assert asked.headers["location"] == f"/api/v1/tasks/{task}"
    await until((root / "waiting").exists)
    second = await client.post("/clusters/demo/delete", json={"confirm": "demo"})
    assert second.status_code == 409
    assert second.json()["task"] == task
    assert task in second.json()["detail"]
    unsure = await client.post("/clusters/demo/delete", json={"confirm": "dmo"})
    assert unsure.status_code == 422
    edit = await client.put("/clusters/demo/spec", json={"spec": "x"})
    assert edit.status_code == 422
    (root / "go").touch()
    done = await ended(client, task)
    assert done["state"] == "succeeded"
    assert done["tally"] == {"succeeded": 3}
    assert not done["resumable"]
    results = (await client.get(f"/tasks/{task}/results")).json()["items"]
    assert {(each["node"], each["state"]) for each in results} == {
        (f"work.do.{name}", "succeeded") for name in ("first", "wait", "last")
    }
    nodes = (await client.get(f"/tasks/{task}/nodes")).json()
    assert {each["state"] for each in nodes} == {"succeeded"}
    matrix = (await client.get(f"/tasks/{task}/matrix")).json()
    assert matrix["hosts"] == ["n1"]
    assert matrix["rows"] == ["s", "s", "s"]
    assert matrix["seq"] == done["seq"]
    logs = (await client.get(f"/tasks/{task}/logs", params={"text": "WAITING"})).json()["items"]
    assert [each["node"] for each in logs] == ["work.do.wait"]
    assert (await client.get(f"/tasks/{task}/logs/work.do.wait/n1")).text == "waiting\nto be let go\n"
    assert (await client.get(f"/tasks/{task}/logs/work.do.wait/n1", params={"tail": 3})).text == "go\n"
    assert (await client.get(f"/tasks/{task}/logs/no.such/n1")).text == ""
    graph = (await client.get(f"/tasks/{task}/graph")).json()
    assert [node["id"] for node in graph["nodes"]] == ["work.do.first", "work.do.wait", "work.do.last"]
    outline = (await client.get(f"/tasks/{task}/outline")).json()
    assert [node["id"] for node in outline["nodes"]] == matrix["nodes"]
    assert outline["links"] == [[0, 1, False], [1, 2, False]]
    assert (await client.get(f"/tasks/{task}/failures")).json() == []
    for how, start_of in {"dot": "digraph", "svg": "<svg", "mermaid": "flowchart", "tree": "create"}.items():
        text = (await client.get(f"/tasks/{task}/graph", params={"format": how})).text
        assert start_of in text[:200], how
    timeline = (await client.get(f"/tasks/{task}/timeline")).json()
    assert [span["node"] for span in timeline["spans"] if span["critical"]]
    history = (await client.get(f"/tasks/{task}/history")).json()
    assert [each["seq"] for each in history] == list(range(1, done["seq"] + 1))
    ends = (await client.get(f"/tasks/{task}/history", params={"kind": ["run.started", "run.ended"]})).json()
    assert ends == [history[0], history[-1]]
    listed = (await client.get("/tasks", params={"cluster": "demo", "state": ["succeeded"]})).json()["items"]
    assert [each["id"] for each in listed] == [task]
    shown = (await client.get("/clusters/demo")).json()
    assert (shown["state"], shown["task"]["id"]) == ("up", task)
    admin = running.client()
    entries = (await admin.get("/audit")).json()["items"]
    assert {(entry["actor"], entry["action"], entry["outcome"]) for entry in entries} >= {
        ("admin", "register cluster", "201"),
        ("operator", "create", "202"),
        ("operator", "delete", "409"),
        ("operator", "task ended", "succeeded"),
    }
    assert (await admin.get("/audit/verify")).json()["ok"]
    everything = running.server.places.data
    assert not any(b"hush-hush" in path.read_bytes() for path in everything.rglob("*") if path.is_file())


async def test_a_dry_run_says_what_would_change_and_changes_nothing(running: Running, demo: str, root: Path) -> None:
    client = running.client("operator")
    task = (await client.post("/clusters/demo/create", json={"dry_run": True})).json()["id"]
    done = await ended(client, task)
    assert done["state"] == "succeeded"
    results = (await client.get(f"/tasks/{task}/results")).json()["items"]
    assert {each["more"]["prediction"] for each in results} <= {"change", "unknown"}
    assert not list(root.iterdir())
    refused = await client.post(f"/tasks/{task}/resume")
    assert refused.status_code == 409


async def test_plans_are_shown_compared_and_carried_out(running: Running, demo: str, root: Path) -> None:
    client = running.client("operator")
    first = (await client.post("/clusters/demo/plan", json={})).json()["id"]
    plan = (await ended(client, first))["plan"]
    assert plan == first
    shown = (await client.get(f"/plans/{plan}")).json()
    assert (shown["pipeline"], shown["nodes"], shown["changes"]) == ("create", 3, True)
    outline = (await client.get(f"/plans/{plan}/outline")).json()
    assert [(node["hosts"], node["host"]) for node in outline["nodes"]] == [(1, "n1")] * 3
    second = (await client.post("/clusters/demo/plan", json={"skip": ["work.do.last"], "offline": True})).json()["id"]
    assert (await ended(client, second))["state"] == "succeeded"
    diff = (await client.get(f"/plans/{second}/diff", params={"against": plan})).json()
    assert [each["id"] for each in diff["changed"]] == ["work.do.last"]
    text = (await client.get(f"/plans/{second}/diff", params={"against": plan, "format": "tree"})).text
    assert "1 changed" in text
    assert (await client.get(f"/plans/{plan}/graph", params={"format": "svg"})).text.startswith("<svg")
    saved = await client.get(f"/plans/{plan}/file")
    assert saved.content.startswith(b"{")
    assert [each["id"] for each in (await client.get("/clusters/demo/plans")).json()["items"]] == [second, plan]
    (root / "go").touch()
    applied = (await client.post(f"/plans/{plan}/apply", json={})).json()["id"]
    assert (await ended(client, applied))["state"] == "succeeded"
    assert (root / "last").exists()


async def test_facts_are_gathered_by_a_task(running: Running, demo: str) -> None:
    client = running.client("operator")
    assert (await client.get("/clusters/demo/facts")).json() == []
    task = (await client.post("/clusters/demo/facts")).json()["id"]
    await ended(client, task)
    found = (await client.get("/clusters/demo/facts")).json()
    assert [(each["host"], each["error"]) for each in found] == [("n1", ""), ("n2", "")]
    assert found[0]["facts"]["kernel"]


async def test_a_failure_is_told_in_the_words_of_the_command_line_and_resumed(
    running: Running, demo: str, root: Path
) -> None:
    client = running.client("operator")
    (root / "go").touch()
    (root / "broken").touch()
    task = (await client.post("/clusters/demo/create", json={})).json()["id"]
    failed = await ended(client, task)
    assert (failed["state"], failed["resumable"]) == ("failed", True)
    results = (await client.get(f"/tasks/{task}/results", params={"state": ["failed", "blocked"]})).json()["items"]
    by_node = {each["node"]: each for each in results}
    assert "exited with 9: fatal: it is broken" in by_node["work.do.wait"]["error"]
    assert by_node["work.do.wait"]["more"]["exit_code"] == 9
    assert by_node["work.do.last"]["root_cause"] == ["work.do.wait", "n1"]
    (cause,) = (await client.get(f"/tasks/{task}/failures")).json()
    assert (cause["node"], cause["host"], cause["blocked"]) == ("work.do.wait", "n1", 1)
    assert (await client.get(f"/tasks/{task}/matrix")).json()["rows"] == ["s", "f", "b"]
    (root / "broken").unlink()
    (root / "go").unlink()
    (root / "waiting").unlink()
    resumed = await client.post(f"/tasks/{task}/resume")
    assert resumed.status_code == 202
    assert resumed.json()["resumed"] == 1
    await until((root / "waiting").exists)
    async with asyncio.timeout(30):
        while (rows := (await client.get(f"/tasks/{task}/matrix")).json()["rows"])[1] != "r":
            assert rows[1] in "f-", "what is tried again has not ended"
    assert rows[2] == "-"
    assert (await client.get(f"/tasks/{task}/failures")).json() == [], "what failed before is being tried again"
    (root / "go").touch()
    assert (await ended(client, task))["state"] == "succeeded"
    assert (await client.post(f"/tasks/{task}/cancel")).status_code == 409


async def test_the_same_request_again_gets_the_same_answer_and_is_done_once(
    running: Running, demo: str, root: Path
) -> None:
    client = running.client("operator")
    key = {"Idempotency-Key": "4f1c"}
    answers = await asyncio.gather(
        *(client.post("/clusters/demo/create", json={}, headers=key) for _ in range(5)), return_exceptions=False
    )
    assert sorted({answer.status_code for answer in answers}) in ([202], [202, 409])
    first = next(answer for answer in answers if answer.status_code == 202)
    again = await client.post("/clusters/demo/create", json={}, headers=key)
    assert again.status_code == 202
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    other = await client.post("/clusters/demo/create", json={"rollback": True}, headers=key)
    assert other.status_code == 409
    assert "another request" in other.json()["detail"]
    refused = await client.post("/clusters/demo/create", json={}, headers={"Idempotency-Key": "b"})
    assert refused.status_code == 409
    assert len((await client.get("/tasks")).json()["items"]) == 1
    (root / "go").touch()
    await ended(client, first.json()["id"])
    retried = await client.post("/clusters/demo/create", json={}, headers={"Idempotency-Key": "b"})
    assert retried.status_code == 202, "what was refused may be asked for again"
    await ended(client, retried.json()["id"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/clusters/demo/create", {"dryrun": True}, 422, "dryrun"),
        ("POST", "/clusters/demo/create", {"only": "etcd"}, 422, "only"),
        ("POST", "/clusters/demo/run", {"pipeline": "creat"}, 422, "there is no pipeline"),
        ("POST", "/clusters/demo/run", {"pipeline": "create", "format": 9}, 422, "has the format 9"),
        ("POST", "/clusters/demo/run", {"pipeline": "delete"}, 422, "confirm it with its name"),
        ("POST", "/clusters/demo/plan", {"pipeline": "create", "options": {"fix": True}}, 422, "has no option 'fix'"),
        ("POST", "/clusters/demo/verify", {"rollback": True}, 422, "rollback"),
        ("POST", "/clusters/Demo/create", {}, 422, "name"),
        ("POST", "/clusters/nobody/create", {}, 404, "there is no cluster"),
        ("GET", "/tasks/nope", None, 404, "there is no task"),
        ("GET", "/tasks?limit=0", None, 422, "limit"),
        ("GET", "/tasks?state=done", None, 422, "state"),
        ("GET", "/clusters/demo/spec?version=9", None, 404, "no version 9"),
        ("PUT", "/clusters/demo/spec", {"spec": "a: [", "note": ""}, 422, "cluster.yaml:1"),
        ("PUT", "/clusters/demo/secrets/x", {"value": ""}, 422, "value"),
        ("POST", "/clusters", {"spec": "a\u0000b"}, 422, "NUL"),
        ("POST", "/nowhere", {}, 404, "nothing at this address"),
        ("PATCH", "/clusters/demo", {}, 405, "does not take this method"),
        ("POST", "/tokens", {"name": "x", "grants": {"*": "king"}}, 422, "grants"),
        ("POST", "/tokens", {"name": "x", "grants": {"*": "viewer"}, "expires": 1}, 422, "expired already"),
        ("DELETE", "/tokens/nobody", None, 404, "there is no token"),
    ],
)
async def test_bad_input_is_a_problem_that_says_what_to_do(
    running: Running, demo: str, method: str, path: str, body: object, status: int, words: str
) -> None:
    client = running.client()
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert words in problem["detail"]
    assert problem["type"].startswith("urn:kubexm:problem:")
