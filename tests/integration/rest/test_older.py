"""Tasks of older code: what they did is still shown, whatever became of their steps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from kubexm.events import Event, EventKind
from kubexm.store import to_line
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task, TaskState
from tests.integration.rest.conftest import Running, registered


async def test_a_graph_with_steps_that_are_gone_is_drawn(running: Running, root: Path, tmp_path: Path) -> None:
    await registered(running, root)
    store = running.server.store
    node = {"$": "kubexm.plan.node:ExecutionNode", "id": "old.way.gone", "hosts": ["n1"]}
    step = {"$": "kubexm.components.gone:SomethingRemoved", "path": "/x"}
    policy = {"$": "kubexm.plan.graph:FailurePolicy"}
    text = json.dumps({"name": "create", "policy": policy, "nodes": [{**node, "step": step}]}).encode()
    digest = hashlib.sha256(text).hexdigest()
    await store.runs.put_graph(digest, text)
    await store.tasks.add(Task(id="t1", cluster="demo", action="create", state=TaskState.SUCCEEDED), alone=False)
    journal = tmp_path / "journal"
    begun = Event(1, 1.0, EventKind.RUN_STARTED, data={"units": 1, "graph": digest})
    done = Event(2, 3.0, EventKind.UNIT_DONE, "old.way.gone", "n1", {"state": "succeeded", "started": 2.0})
    journal.write_bytes(to_line(begun) + to_line(done))
    await JournalTail(store.runs, (await store.tasks.get("t1")).n, journal).catch_up()
    client = running.client("viewer")
    told = (await client.get("/tasks/t1/graph")).json()
    assert [(each["id"], each["step"]["state"]) for each in told["nodes"]] == [("old.way.gone", "SomethingRemoved")]
    assert (await client.get("/tasks/t1/graph", params={"format": "svg"})).text.startswith("<svg")
    assert [span["node"] for span in (await client.get("/tasks/t1/timeline")).json()["spans"]] == ["old.way.gone"]
