"""The whole OpenAPI under schemathesis: whatever is sent, no 5xx, and nothing back that the schema does not say."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zlib import crc32

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kubexm.connector import Host
from kubexm.events import Event, EventKind
from kubexm.pipeline import PIPELINES
from kubexm.plan import ExecutionGraph, RunSpec, SavedPlan
from kubexm.redact import Secret
from kubexm.rest.app import create_app
from kubexm.rest.serve import listen, serve
from kubexm.rest.state import Server, ServerSettings
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.service.tasks import TaskOptions, TaskService
from kubexm.store import to_line
from kubexm.store.plans import PlanRecord
from kubexm.store.store import Store
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task, TaskState
from kubexm.task import FragmentBuilder
from tests.integration.service.work import PLACES, Nothing, spec

EXAMPLES = {"demo", "20261116-075341-c9f4"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class _Thread(threading.Thread):
    """A server in a thread of its own: what asks it here waits for each answer. It starts no task: none may run."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self.ready = threading.Event()
        self.url = self.token = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._until: asyncio.Event | None = None

    def run(self) -> None:
        asyncio.run(self._main())

    def stop(self) -> None:
        assert self._loop is not None
        assert self._until is not None
        self._loop.call_soon_threadsafe(self._until.set)
        self.join(60)

    async def _main(self) -> None:
        self._loop, self._until = asyncio.get_running_loop(), asyncio.Event()
        places = Places(self._directory / "data")
        places.prepare()
        store = await Store.open(places.database, places.key)
        registry = Registry(store, places)
        for name in ("demo", "other"):
            await registry.register(spec(self._directory, name=name), by="test", secrets={"login": Secret("x")})
        (places.work / "demo").mkdir()
        (places.work / "demo" / "kubeconfig").write_text("apiVersion: v1\n")
        await _a_run(store, self._directory)
        await _a_plan(store, self._directory)
        tasks = TaskService(store, places, TaskOptions(parallel=0), registry)
        limits = ServerSettings(burst=10**9, rate=1e9, failures=10**9)
        server = Server(store=store, places=places, tasks=tasks, registry=registry, settings=limits)
        self.token = (await store.tokens.create("admin", {"*": "admin"}, by="test"))[1].reveal()
        listening = listen("127.0.0.1:0", None, None)
        self.url = listening.url
        try:
            await serve(create_app(server), listening, ready=self.ready.set, until=self._until)
        finally:
            listening.socket.close()
            await store.close()


def _graph() -> ExecutionGraph:
    g, hosts = FragmentBuilder("work.do"), [Host(name=name, address="127.0.0.1") for name in ("n1", "n2")]
    first = g.add("first", Nothing(), on=hosts)
    g.add("last", Nothing(), on=hosts[:1], after=[first])
    return ExecutionGraph.build("create", g.build())


async def _a_run(store: Store, directory: Path) -> None:
    """A task that has everything a run leaves."""
    await store.tasks.add(
        Task(id="t1", cluster="demo", action="create", state=TaskState.FAILED, changes=True), alone=False
    )
    graph = _graph()
    failed = {"state": "failed", "started": 2.0, "error": {"kind": "CommandError", "message": "no", "exit_code": 9}}
    lines = [
        Event(1, 1.0, EventKind.RUN_STARTED, data={"units": 3, "graph": graph.digest}),
        Event(
            2, 3.0, EventKind.UNIT_DONE, "work.do.first", "n1", {"state": "succeeded", "started": 1.0, "stdout": "x"}
        ),
        Event(3, 4.0, EventKind.UNIT_DONE, "work.do.first", "n2", failed),
        Event(4, 4.0, EventKind.UNIT_DONE, "work.do.last", "n1", {"state": "blocked", "root_cause": ["a", "n2"]}),
        Event(5, 5.0, EventKind.RUN_ENDED, data={"status": "failed"}),
    ]
    (directory / "journal").write_bytes(b"".join(map(to_line, lines)))
    await store.runs.put_graph(graph.digest, graph.to_json().encode())
    await JournalTail(store.runs, (await store.tasks.get("t1")).n, directory / "journal").catch_up()


async def _a_plan(store: Store, directory: Path) -> None:
    graph = _graph()
    SavedPlan(spec=RunSpec("create"), cluster="demo", file="", config={}, reads=(), graph=graph).save(
        directory / "plan"
    )
    about = {"pipeline": "create", "spec_version": 1, "created": 1.0, "created_by": "test", "digest": graph.digest}
    more = {"offline": False, "changes": True, "nodes": 2, "units": 3, "body": (directory / "plan").read_bytes()}
    await store.plans.add(PlanRecord(id="p1", cluster="demo", **about, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Thread]:
    patch = pytest.MonkeyPatch()
    for name, place in PLACES.items():
        patch.setitem(PIPELINES, name, place)
    thread = _Thread(tmp_path_factory.mktemp("schema"))
    thread.start()
    assert thread.ready.wait(60)
    yield thread
    thread.stop()
    patch.undo()


def _document() -> dict[str, Any]:
    """The schema, which needs nothing of a server but its settings."""
    return create_app(cast(Server, SimpleNamespace(settings=ServerSettings()))).openapi()


schema = schemathesis.openapi.from_dict(_document())
# A stream of a task that waits never ends; streams have tests of their own.
tested = schema.exclude(path_regex=r"/(events|follow)$")


@tested.parametrize()
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_the_answer_is_as_the_schema_says(case: Any, server: _Thread) -> None:
    spoils = (case.method, case.operation.path.rpartition("/")[2]) in {("DELETE", "{name}"), ("PUT", "spec")}
    known = {"name": "other" if spoils else "demo", "task": "t1", "plan": "p1", "against": "p1"}
    for place in (case.path_parameters or {}, case.query or {}):
        for name in known.keys() & place.keys():
            if str(place[name]) in EXAMPLES or crc32(str(place[name]).encode()) % 4:
                place[name] = known[name]  # mostly something that is there
    response = case.call(base_url=server.url, headers={"Authorization": f"Bearer {server.token}"})
    case.validate_response(response, checks=CHECKS)
