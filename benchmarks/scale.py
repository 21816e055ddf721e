"""A thousand hosts: `kubexm plan` for a cluster of them, and that very plan carried out by the engine.

The plan is made by the command itself, offline, in a process of its own. For the engine the hosts are simulated (the
in-memory connector, no sshd): every step of the plan takes a drawn time and does nothing else, with journal and events
on, so that what is measured is whether the engine starts each (node, host) when it may. Beside it stands the longest
path through the plan, as the timeline of any run computes it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.engine import Counter, NoOp
from benchmarks.report import machine, say, spread, table, target
from kubexm.engine import Journal, LocalEngine, RunOptions
from kubexm.plan import ExecutionFragment, ExecutionGraph, RunSpec, RunStatus
from kubexm.runtime import StepContext
from kubexm.service import ClusterService
from kubexm.step import Values
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context

CONTROL_PLANES = 3
SHORTEST, LONGEST = 0.2, 4.0
"""Seconds a step takes on a host: drawn once for each, many short ones and a few long ones, as in a real run."""
DRAWN: dict[tuple[str, str], float] = {}


def cluster_file(folder: Path, hosts: int) -> Path:
    """Three control planes, all others workers."""
    lines = [f"    - {{name: h{i:04}, address: 10.{i // 250}.{i % 250}.1}}" for i in range(hosts)]
    path = folder / "cluster.yaml"
    path.write_text(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: many}\nspec:\n  hosts:\n"
        + "\n".join(lines)
        + f"""
  roleGroups:
    etcd: ["h[0000:{CONTROL_PLANES - 1:04}]"]
    controlPlane: ["h[0000:{CONTROL_PLANES - 1:04}]"]
    worker: ["h[{CONTROL_PLANES:04}:{hosts - 1:04}]"]
  network: {{podCIDR: 10.128.0.0/12, serviceCIDR: 10.192.0.0/16}}
  kubernetes: {{version: v1.34.4}}
"""
    )
    return path


def planned(file: Path) -> dict[str, float]:
    """What `kubexm plan create --offline` takes."""
    began = time.perf_counter()
    with (file.parent / "plan.txt").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "kubexm", "plan", "create", "--offline", "-f", str(file), "-o", "table"],
            stdout=out,
            stderr=subprocess.PIPE,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"error: plan ended with {process.returncode}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(NoOp):
    """Takes its drawn time on each host and touches nothing."""

    node: str

    async def run(self, ctx: StepContext) -> Values | None:
        await asyncio.sleep(DRAWN[self.node, ctx.host.name])
        return None


def simulated(graph: ExecutionGraph) -> ExecutionGraph:
    """The same graph of steps that only take time."""
    chance = random.Random(1)
    for node in graph.nodes.values():
        for host in node.hosts:
            DRAWN[node.id, host] = min(LONGEST, SHORTEST + chance.expovariate(2.0))
    nodes = tuple(
        replace(node, step=Drawn(node=node.id), on_demand=False, excluded="") for node in graph.nodes.values()
    )
    return ExecutionGraph.build(graph.name, ExecutionFragment(nodes), policy=graph.policy)


def longest(graph: ExecutionGraph) -> float:
    """The longest path through the plan, by the drawn times."""
    ends: dict[str, dict[str, float]] = {}
    for node in graph.nodes.values():
        gate = max((max(ends[each].values()) for each in node.after), default=0.0)
        ends[node.id] = {
            host: max([gate, *(ends[each][host] for each in node.after_same_host if host in ends[each])])
            + DRAWN[node.id, host]
            for host in node.hosts
        }
    return max(max(each.values()) for each in ends.values())


def carried_out(file: Path) -> dict[str, float]:
    """The engine's time for the plan, the longest path through it, and the CPU and memory of the process."""

    async def run() -> dict[str, float]:
        plan = await ClusterService().plan(file, RunSpec.of("create"), offline=True)
        graph = simulated(plan.graph)
        context = memory_context(file.parent / "work", {name: MemoryConnector(name) for name in graph.hosts})
        journal = Journal.create(file.parent / "journal")
        options = RunOptions(run="scale", journal=journal, observers=(Counter(),))
        before, began = time.process_time(), time.perf_counter()
        result = await LocalEngine(parallel=100_000).execute(context, graph, options)
        seconds, cpu = time.perf_counter() - began, time.process_time() - before
        await journal.close()
        assert result.status is RunStatus.SUCCEEDED, result.status
        return {"units": graph.units, "seconds": seconds, "cpu": cpu, "longest": longest(graph)}

    found = asyncio.run(run())
    return {**found, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measured(file: Path) -> dict[str, float]:
    """`carried_out` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", str(file)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def several(rounds: int, hosts: int, way: Callable[[Path], dict[str, float]]) -> list[dict[str, float]]:
    """What each round found."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="kubexm-bench-") as folder:
            found.append(way(cluster_file(Path(folder), hosts)))
        say(", ".join(f"{name} {value:.1f}" for name, value in found[-1].items()))
    return found


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=Path)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(carried_out(options.one)))
        return
    print(f"{machine()}\n")
    plans = several(options.rounds, options.hosts, planned)
    runs = several(options.rounds, options.hosts, measured)

    def of(found: list[dict[str, float]], what: str, digits: int = 1) -> str:
        return spread([each[what] for each in found], digits)

    print(
        table(
            (f"`plan create --offline`, {options.hosts:,} hosts", "measured", "aim"),
            [
                ("seconds", of(plans, "seconds"), "< 5"),
                ("of CPU", of(plans, "cpu"), ""),
                ("memory, MB", of(plans, "megabytes", 0), "< 500"),
            ],
        )
    )
    worst = max(each["seconds"] / each["longest"] for each in runs)
    units = f"{int(runs[0]['units']):,}"
    print(
        table(
            (f"that plan on simulated hosts, {units} units", "measured"),
            [
                ("seconds", of(runs, "seconds")),
                ("longest path through the plan, seconds", of(runs, "longest")),
                ("makespan to the longest path, worst", target(worst, "≤ 1.1")),
                ("of CPU", of(runs, "cpu")),
                ("memory, MB", of(runs, "megabytes", 0)),
            ],
        )
    )


if __name__ == "__main__":
    main()
