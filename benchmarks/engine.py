"""The engine at scale: 100,000 (node, host) units with journal and events on, beside a bare loop and dask.distributed.

Everything is measured in one run, each in a process of its own, interleaved, and reported as ratios of medians: by the
clock, and by the time of a processor, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import machine, say, spread, table, target
from kubexm.engine import Cancellation, Journal, LocalEngine, RunOptions
from kubexm.events import Event
from kubexm.plan import ExecutionFragment, ExecutionGraph, ExecutionNode, RunStatus
from kubexm.runtime import StepContext
from kubexm.step import NOTHING, Check, Resources, Step, Values
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

PARALLEL = 500
NODES = 100
BARRIERS = 10
DASK_ROUNDS = 2
"""Minutes each at full size: two of a tenth of it are enough for a ratio of hundreds."""
DURATIONS: dict[int, dict[tuple[int, str], float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOp(Step):
    """Does nothing, and is run all the same: precheck, intent, run, recheck."""

    def reads(self) -> Resources:
        return NOTHING

    def writes(self) -> Resources:
        return NOTHING

    async def precheck(self, ctx: StepContext) -> Check:
        return Check.unreadable()

    async def run(self, ctx: StepContext) -> Values | None:
        return None


Plan = list[tuple[int, list[int], list[int]]]


def layered(nodes: int, barriers: int) -> Plan:
    """Nodes as (index, after, after_same_host): chains per host, with a full barrier every so often."""
    every = nodes // barriers
    return [(i, [i - 1] if i and i % every == 0 else [], [i - 1] if i and i % every else []) for i in range(nodes)]


class Counter:
    """An observer that does the least an observer can do."""

    def __init__(self) -> None:
        self.events = 0

    def on_event(self, event: Event) -> None:
        self.events += 1


def kubexm_run(hosts: int, nodes: int, barriers: int) -> dict[str, float]:
    """Time per unit with journal (group commit, real fsync) and one observer; memory it added."""
    names = [f"h{i:04}" for i in range(hosts)]
    step = NoOp()
    fragment = ExecutionFragment(
        tuple(
            ExecutionNode(
                id=f"bench.run.n{i:03}",
                step=step,
                hosts=tuple(names),
                after=tuple(f"bench.run.n{j:03}" for j in after),
                after_same_host=tuple(f"bench.run.n{j:03}" for j in same),
            )
            for i, after, same in layered(nodes, barriers)
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        context = memory_context(Path(directory) / "work", {name: MemoryConnector(name) for name in names})
        taken = Taken()
        graph = ExecutionGraph.build("bench", fragment, known_hosts=names)
        observer = Counter()

        async def run() -> RunStatus:
            journal = Journal.create(Path(directory) / "journal")
            options = RunOptions(run="bench", journal=journal, observers=(observer,), cancellation=Cancellation())
            result = await LocalEngine(parallel=PARALLEL).execute(context, graph, options)
            await journal.close()
            return result.status

        status = asyncio.run(run())
        found = taken.until_now()
    assert status is RunStatus.SUCCEEDED
    assert observer.events >= 2 * hosts * nodes
    return found


class BareLoop:
    """The least anyone could do: in-degrees, one asyncio task per unit, no journal, no events, no results."""

    def __init__(self, hosts: int, plan: Plan) -> None:
        self._hosts = hosts
        self._below_all: list[list[int]] = [[] for _ in plan]
        self._below_same: list[list[int]] = [[] for _ in plan]
        self._waits = [[len(after) + len(same)] * hosts for _, after, same in plan]
        self._left = [hosts] * len(plan)
        self._unfinished = hosts * len(plan)
        self._done = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        for i, after, same in plan:
            for j in after:
                self._below_all[j].append(i)
            for j in same:
                self._below_same[j].append(i)

    async def run(self) -> None:
        """All units, each as soon as it may."""
        for i in [i for i, waits in enumerate(self._waits) if not waits[0]]:
            for host in range(self._hosts):
                self._start(i, host)
        await self._done.wait()

    def _start(self, i: int, host: int) -> None:
        task = asyncio.create_task(self._unit(i, host))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _unit(self, i: int, host: int) -> None:
        await asyncio.sleep(0)
        for j in self._below_same[i]:
            self._one_less(j, host)
        self._left[i] -= 1
        if not self._left[i]:
            for j in self._below_all[i]:
                for other in range(self._hosts):
                    self._one_less(j, other)
        self._unfinished -= 1
        if not self._unfinished:
            self._done.set()

    def _one_less(self, i: int, host: int) -> None:
        waits = self._waits[i]
        waits[host] -= 1
        if not waits[host]:
            self._start(i, host)


def bare_run(hosts: int, nodes: int, barriers: int) -> dict[str, float]:
    """Time per unit and memory of the bare loop."""
    taken = Taken()

    async def run() -> None:
        await BareLoop(hosts, layered(nodes, barriers)).run()

    asyncio.run(run())
    return taken.until_now()


def dask_run(hosts: int, nodes: int, barriers: int) -> dict[str, float]:
    """One task per unit on a local dask.distributed cluster of one process; a barrier is one more task."""
    # By name, since only the environment of the benchmarks has it.
    distributed = importlib.import_module("distributed")
    with (
        # All in one process, with no sockets between: the fastest it has.
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        taken = Taken()
        tasks: dict[str, object] = {}
        for i, after, same in layered(nodes, barriers):
            for host in range(hosts):
                upstream = [f"u-{j}-{host}" for j in same] + [f"b-{j}" for j in after]
                tasks[f"u-{i}-{host}"] = (_nothing, upstream)
            tasks[f"b-{i}"] = (_nothing, [f"u-{i}-{host}" for host in range(hosts)])
        client.get(tasks, [f"b-{nodes - 1}"])
        return taken.until_now()


def _nothing(*_: object) -> None:
    return None


def makespan(seed: int) -> float:
    """Makespan of a random graph with known durations over its critical path, with enough workers."""
    chance = random.Random(seed)
    hosts = [f"h{i}" for i in range(20)]
    durations = {(i, h): chance.uniform(0.1, 0.8) for i in range(30) for h in hosts}
    nodes: list[tuple[list[int], list[int]]] = []
    for i in range(30):
        earlier = chance.sample(range(i), k=min(i, chance.randint(0, 2)))
        kinds = [chance.random() < 0.3 for _ in earlier]
        nodes.append(
            (
                [j for j, barrier in zip(earlier, kinds, strict=True) if barrier],
                [j for j, barrier in zip(earlier, kinds, strict=True) if not barrier],
            )
        )
    end: dict[tuple[int, str], float] = {}
    for i, (after, same) in enumerate(nodes):
        gate = max((end[j, h] for j in after for h in hosts), default=0.0)
        for h in hosts:
            end[i, h] = max([gate, *(end[j, h] for j in same)]) + durations[i, h]
    fragment = ExecutionFragment(
        tuple(
            ExecutionNode(
                id=f"bench.span.n{i}",
                step=Sleep(number=i, seed=seed),
                hosts=tuple(hosts),
                after=tuple(f"bench.span.n{j}" for j in after),
                after_same_host=tuple(f"bench.span.n{j}" for j in same),
            )
            for i, (after, same) in enumerate(nodes)
        )
    )
    DURATIONS[seed] = durations
    with tempfile.TemporaryDirectory() as directory:
        context = memory_context(Path(directory) / "work", {name: MemoryConnector(name) for name in hosts})
        graph = ExecutionGraph.build("span", fragment)

        async def run() -> float:
            journal = Journal.create(Path(directory) / "journal")
            options = RunOptions(run="span", journal=journal)
            started = time.perf_counter()
            await LocalEngine(parallel=10_000).execute(context, graph, options)
            seconds = time.perf_counter() - started
            await journal.close()
            return seconds

        return asyncio.run(run()) / max(end.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep(NoOp):
    """Takes a known time on each host."""

    number: int
    seed: int

    async def run(self, ctx: StepContext) -> Values | None:
        await asyncio.sleep(DURATIONS[self.seed][self.number, ctx.host.name])
        return None


class Taken:
    """What this process takes from here on: seconds, seconds of a processor, memory (KiB) at its peak."""

    def __init__(self) -> None:
        self._at = self._now()

    def until_now(self) -> dict[str, float]:
        """All of it, so far."""
        return {name: value - self._at[name] for name, value in self._now().items()}

    @staticmethod
    def _now() -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"seconds": time.perf_counter(), "cpu": time.process_time(), "kilobytes": peak}


MODES: dict[str, Callable[[int, int, int], dict[str, float]]] = {
    "kubexm": kubexm_run,
    "bare loop": bare_run,
    "dask.distributed": dask_run,
}


def measured(mode: str, hosts: int, nodes: int, barriers: int) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.engine", "--one", mode, str(hosts), str(nodes), str(barriers)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4, metavar=("MODE", "HOSTS", "NODES", "BARRIERS"))
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.one:
        mode, hosts, nodes, barriers = options.one
        print(json.dumps(MODES[mode](int(hosts), int(nodes), int(barriers))))
        return
    print(f"{machine()}\n")
    print(units_table(options.hosts, options.rounds), flush=True)
    say("makespan of random graphs")
    spans = [makespan(seed) for seed in range(10)]
    rows = [("10 random graphs of 600 units, enough workers", spread(spans, 3), target(max(spans), "≤ 1.02"))]
    print(table(("makespan / critical path", "median", "worst"), rows))


def units_table(hosts: int, rounds: int) -> str:
    """Time and memory per unit, kubexm's beside the others'."""
    sizes = {"kubexm": hosts, "bare loop": hosts, "dask.distributed": max(1, hosts // 10)}
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(rounds):
        for mode, count in sizes.items():
            if mode == "dask.distributed" and number >= DASK_ROUNDS:
                continue
            found[mode].append(measured(mode, count, NODES, BARRIERS))
        last = (f"{mode} {found[mode][-1]['seconds']:.2f} s" for mode in MODES)
        say(f"round {number + 1} of {rounds}: " + ", ".join(last))

    def per_unit(mode: str, what: str) -> list[float]:
        return [each[what] / sizes[mode] / NODES for each in found[mode]]

    def times(mode: str, what: str) -> list[float]:
        return [each * 1e6 for each in per_unit(mode, what)]

    def beside(mode: str, what: str) -> str:
        theirs = per_unit(mode, what)
        # Of the same rounds: what disturbed the others has to have disturbed ours.
        ours, others = statistics.median(per_unit("kubexm", what)[: len(theirs)]), statistics.median(theirs)
        if mode == "bare loop":
            return f"kubexm takes {target(ours / others, '≤ 4')}"
        return "1.00x" if mode == "kubexm" else f"kubexm is faster by {target(others / ours, '≥ 40')}"

    rows = []
    for mode in MODES:
        size = statistics.median(per_unit(mode, "kilobytes")) * 1.024
        note = "" if mode != "kubexm" else f" (aim: ≤ 1.5{'' if size <= 1.5 else ', **missed**'})"
        clock, cpu = ((spread(times(mode, what), 1), beside(mode, what)) for what in ("seconds", "cpu"))
        rows.append((mode, f"{sizes[mode] * NODES:,}", *clock, *cpu, f"{size:.2f}{note}"))
    head = ("way", "units", "µs a unit", "by the clock", "µs of a processor", "by the processor", "kB a unit")
    return table(head, rows)


if __name__ == "__main__":
    main()
