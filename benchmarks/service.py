"""The service under load: how soon followers hear of events, what store and followers cost a run, how fast lists are.

A real server (REST, SQLite, server-sent events) and an engine in a worker process of its own; only the hosts are in
memory, and their steps take as long as short ones do. Everything is measured in one run, interleaved, beside the same
with none of it.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from sqlalchemy import insert

from benchmarks.engine import NoOp
from benchmarks.report import machine, say, spread, table, target
from kubexm.engine import Cancellation, Journal, LocalEngine, RunOptions
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, RunSpec, RunStatus
from kubexm.runtime import StepContext
from kubexm.service.jobs import Job, Outcome
from kubexm.service.run_files import RunFiles, RunRecord
from kubexm.store.store import Store
from kubexm.store.tables import tasks
from kubexm.store.tasks import Task, TaskState, _values
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

HOSTS, NODES, SECONDS = 100, 50, 0.2
"""100 hosts whose steps take 200 ms: 500 units, which is 1,000 events, a second."""
FOLLOWERS = 50
TASKS = 100_000
SPEC = """\
metadata: {name: bench}
spec:
  global: {user: root, password: "secret:login"}
  hosts: [{name: h1, address: 10.0.0.1}]
  roleGroups: {etcd: [h1], controlPlane: [h1], worker: [h1]}
"""
_FRAME = re.compile(rb'^data: \{"seq":(\d+),"time":([\d.]+)', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes(NoOp):
    """Takes as long as a command on a host does."""

    seconds: float

    async def run(self, ctx: StepContext) -> None:
        await asyncio.sleep(self.seconds)


# The run, in a process of its own


def _graph(names: list[str], nodes: int) -> ExecutionGraph:
    fragment = ExecutionFragment(
        tuple(
            ExecutionNode(
                id=f"bench.run.n{number:03}",
                step=Takes(seconds=SECONDS),
                hosts=tuple(names),
                after_same_host=(f"bench.run.n{number - 1:03}",) if number else (),
            )
            for number in range(nodes)
        )
    )
    return ExecutionGraph.build("bench", fragment, known_hosts=names)


async def _run(place: Path, job: Job | None, *, journaled: bool = False) -> float:
    """Seconds for the run: as a task of a server with its journal, with a journal alone, or with nothing at all."""
    names = [f"h{number:02}" for number in range(HOSTS)]
    graph = _graph(names, NODES)
    context = memory_context(place, {name: MemoryConnector(name) for name in names})
    journal = Journal.create(place / "journal") if journaled else Journal(None)
    if job is not None:
        request = RunRecord(id=job.task, cluster="bench", spec=RunSpec("create"), file="", changes=True, config={})
        files = RunFiles.create(Path(job.work_dir) / "bench" / "runs" / job.task, request, graph)
        journal = Journal.create(files.journal)
        await asyncio.sleep(2.0)  # until everybody who wants to follow does
    options = RunOptions(run=job.task if job else "bench", journal=journal, cancellation=Cancellation())
    started = time.perf_counter()
    result = await LocalEngine(parallel=HOSTS).execute(context, graph, options)
    await journal.close()
    assert result.status is RunStatus.SUCCEEDED
    return time.perf_counter() - started


def worker(notes: Path) -> None:
    """A worker as the server starts it; leaves its time beside."""
    job = Job.from_line(sys.stdin.buffer.readline())
    with tempfile.TemporaryDirectory() as directory:
        seconds = asyncio.run(_run(Path(directory) / "work", job))
    (notes / job.task).write_text(str(seconds))
    sys.stdout.buffer.write(Outcome(status="succeeded").to_line())


def alone(journaled: bool) -> None:
    """The same run with none of it, or with its journal alone."""
    with tempfile.TemporaryDirectory() as directory:
        print(asyncio.run(_run(Path(directory) / "work", None, journaled=journaled)))


# The server and its followers


def serve(notes: str, words: list[str]) -> None:
    """`kubexm serve`, with workers of this module."""
    from kubexm.cli.main import main as kubexm
    from kubexm.service import tasks as service

    command = (sys.executable, "-m", "benchmarks.service", "--worker", notes)
    service.TaskOptions = partial(service.TaskOptions, worker=command)  # type: ignore[assignment,misc]
    kubexm(["serve", *words])


@contextmanager
def server(place: Path) -> Iterator[tuple[str, str]]:
    """A server in a process of its own: its address and a token."""
    log = place / "log"
    words = ["--data-dir", str(place / "data"), "--listen", "127.0.0.1:0"]
    with log.open("wb") as out:
        command = [sys.executable, "-m", "benchmarks.service", "--serve", str(place), *words]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while (shown := re.search(r"serves at (\S+)[\s\S]*token: +in (\S+)", log.read_text())) is None:
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield shown[1], Path(shown[2]).read_text().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def _follow(url: str, token: str, task: str, late: list[float] | None) -> int:
    """Reads a whole run's events over a bare socket; says how many, and with `late` how old each was."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
    head = f"GET /api/v1/tasks/{task}/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    assert b" 200 " in (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
    seen, text = 0, b""
    while size := int(await reader.readline() or b"0", 16):
        text += (await reader.readexactly(size + 2))[:-2]
        now = time.time()
        whole, _, text = text.rpartition(b"\n\n")
        if late is None:
            seen += whole.count(b"\nid: ") + whole.startswith(b"id: ")
            continue
        found = _FRAME.findall(whole)
        seen += len(found)
        late += [now - float(moment) for _, moment in found]
    writer.close()
    return seen


async def _served(url: str, token: str, notes: Path, followers: int) -> tuple[float, list[float]]:
    """One run through the server: its seconds, and how late one of the followers heard of each event."""
    late: list[float] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=60) as client:
        if (await client.get("/clusters/bench")).status_code == 404:
            made = await client.post("/clusters", json={"spec": SPEC, "secrets": {"login": "x"}})
            assert made.status_code == 201, made.text
        task = (await client.post("/clusters/bench/create", json={})).json()["id"]
        first = _follow(url, token, task, late)
        counts = await asyncio.gather(first, *(_follow(url, token, task, None) for _ in range(followers - 1)))
        done = (await client.get(f"/tasks/{task}")).json()
    assert done["state"] == "succeeded", done
    assert set(counts) == {done["seq"]} == {2 * HOSTS * NODES + 2}, "each hears all of it, once"
    return float((notes / task).read_text()), late


def runs(rounds: int) -> str:
    """A run with journal, store and followers beside the same with none; and how soon followers hear."""
    times: dict[str, list[float]] = {"alone": [], "journal": [], "served": []}
    late: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with server(place) as (url, token):
            for number in range(rounds):
                for way in ("alone", "journal"):
                    command = [sys.executable, "-m", "benchmarks.service", "--alone", way]
                    times[way].append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
                seconds, found = asyncio.run(_served(url, token, place, FOLLOWERS))
                times["served"].append(seconds)
                late += found
                last = ", ".join(f"{way} {every[-1]:.2f} s" for way, every in times.items())
                say(f"round {number + 1} of {rounds}: {last}")
    events = 2 * HOSTS * NODES
    middle = {name: statistics.median(every) for name, every in times.items()}
    ratio = target(middle["served"] / middle["alone"], "≤ 1.05")
    first = table(
        (f"a run of {HOSTS * NODES:,} units, {events / middle['alone']:,.0f} events a second", "seconds", "beside it"),
        [
            ("no journal, no store, nobody follows", spread(times["alone"]), "1.00x"),
            ("journal alone", spread(times["journal"]), f"{middle['journal'] / middle['alone']:.2f}x"),
            (f"journal, store and {FOLLOWERS} followers", spread(times["served"]), ratio),
        ],
    )
    milliseconds = sorted(1000 * each for each in late)
    half, most = statistics.median(milliseconds), milliseconds[int(len(milliseconds) * 0.99)]
    aim = f"{half:.0f} (aim: ≤ 100{'' if half <= 100 else ', **missed**'})"
    second = table(
        ("from the engine to a follower", "events", "median, ms", "99 of 100, ms"),
        [(f"one of {FOLLOWERS} followers", f"{len(late):,}", aim, f"{most:.0f}")],
    )
    return f"{first}\n{second}"


# Lists


async def _fill(place: Path, count: int) -> None:
    opened = await Store.open(f"sqlite:///{place / 'data' / 'kubexm.db'}", place / "data" / "key")
    states = [state for state in TaskState if state not in (TaskState.QUEUED, TaskState.RUNNING)]
    try:
        for start in range(0, count, 5000):
            rows = [
                _values(
                    Task(
                        id=f"t{number}",
                        cluster=f"c{number % 100}",
                        action="create",
                        state=states[number % len(states)],
                        created=float(number),
                        ended=float(number),
                        kept=True,
                        tally={"succeeded": 400},
                    )
                )
                for number in range(start, min(start + 5000, count))
            ]
            async with opened.database.write() as connection:
                await connection.execute(insert(tasks), rows)
    finally:
        await opened.close()


def _listed(count: int, asks: int) -> dict[str, list[float]]:
    """Milliseconds for lists of tasks over REST."""
    ways = {
        "the first page": {},
        "of one cluster": {"cluster": "c7"},
        "that failed, of one cluster": {"cluster": "c7", "state": "failed"},
        "by a state that none is in": {"state": "running"},
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "data").mkdir(mode=0o700)
        asyncio.run(_fill(place, count))
        headers: dict[str, str] = {}
        with server(place) as (url, token), httpx.Client(base_url=f"{url}/api/v1", timeout=60) as client:
            headers["Authorization"] = f"Bearer {token}"
            for _ in range(asks):
                for name, params in ways.items():
                    started = time.perf_counter()
                    answer = client.get("/tasks", params=params, headers=headers)
                    found[name].append(1000 * (time.perf_counter() - started))
                    assert answer.status_code == 200, answer.text
    return found


def lists(asks: int) -> str:
    """How long lists of tasks take, few and many."""
    say("lists of tasks")
    few, many = _listed(100, asks), _listed(TASKS, asks)
    rows = []
    for name in many:
        middle, slow = statistics.median(many[name]), sorted(many[name])[int(len(many[name]) * 0.95)]
        aim = f"{middle:.1f} (aim: ≤ 50{'' if middle <= 50 else ', **missed**'})"
        rows.append((name, f"{statistics.median(few[name]):.1f}", aim, f"{slow:.1f}"))
    head = ("list of tasks, ms", "100 tasks", f"{TASKS:,} tasks", f"{TASKS:,} tasks, 95 of 100")
    return table(head, rows)


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--alone", choices=["alone", "journal"], help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(Path(options.worker))
    elif options.alone:
        alone(options.alone == "journal")
    elif options.serve:
        serve(options.serve[0], options.serve[1:])
    else:
        print(f"{machine()}\n")
        print(runs(options.rounds), flush=True)
        print(lists(20 * options.rounds))


if __name__ == "__main__":
    main()
