"""The store under load: step logs a second into SQLite, on one core, beside the least anyone could do."""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import machine, say, table
from kubexm.events import Event, EventKind
from kubexm.store import to_line
from kubexm.store.store import Store
from kubexm.store.tail import JournalTail
from kubexm.store.tasks import Task

LOGS = 40_000


def _write_journal(path: Path, logs: int) -> None:
    """What a run of so many units writes: intent and end of each, with a little output."""
    with path.open("wb") as file:
        file.write(to_line(Event(1, 1.0, EventKind.RUN_STARTED, data={"units": logs, "graph": ""})))
        for number in range(logs):
            node, host = f"bench.run.n{number // 100:04}", f"h{number % 100:03}"
            intent = {"attempt": 1, "receipts": f"r{number}", "boot": "b", "deadline": 1e9}
            file.write(to_line(Event(2 * number + 2, 1.0, EventKind.UNIT_RUNNING, node, host, intent)))
            data = {"state": "succeeded", "started": 0.5, "attempts": 1, "stdout": f"line {number}\n" * 12}
            file.write(to_line(Event(2 * number + 3, 1.0, EventKind.UNIT_DONE, node, host, data)))


async def _kept(place: Path, logs: int) -> float:
    """Step logs a second, from the journal into a store on SQLite."""
    store = await Store.open(f"sqlite:///{place / 'store' / 'kubexm.db'}", place / "key")
    try:
        await store.tasks.add(Task(id="t", cluster="bench", action="create"), alone=False)
        task = await store.tasks.get("t")
        started = time.perf_counter()
        taken = await JournalTail(store.runs, task.n, place / "journal").catch_up()
        seconds = time.perf_counter() - started
    finally:
        await store.close()
    assert taken == 2 * logs + 1
    return logs / seconds


def _bare(place: Path, logs: int) -> float:
    """The least a store could do: the same logs, from the same file, into one table, with the same durability."""
    started = time.perf_counter()
    connection = sqlite3.connect(place / "bare.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE logs (seq INTEGER PRIMARY KEY, node TEXT, host TEXT, state TEXT, stdout TEXT)")
    rows: list[tuple[Any, ...]] = []
    with (place / "journal").open("rb") as file:
        for line in file:
            event = Event.from_json(line[9:])
            if event.kind is EventKind.UNIT_DONE:
                rows.append((event.seq, event.node, event.host, event.data["state"], event.data["stdout"]))
            if len(rows) == 500:
                with connection:
                    connection.executemany("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", rows)
                rows.clear()
    connection.close()
    return logs / (time.perf_counter() - started)


def store_one(way: str) -> None:
    """One measurement, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "store").mkdir(mode=0o700)
        _write_journal(place / "journal", LOGS)
        print(asyncio.run(_kept(place, LOGS)) if way == "store" else _bare(place, LOGS))


def store(rounds: int) -> str:
    """How many step logs a second the store takes on SQLite, on one core."""
    found: dict[str, list[float]] = {"store": [], "bare": []}
    for number in range(rounds):
        for way, every in found.items():
            command = [sys.executable, "-m", "benchmarks.store", "--one", way]
            every.append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        say(f"round {number + 1} of {rounds}: " + ", ".join(f"{way} {every[-1]:,.0f}" for way, every in found.items()))
    ours, bare = statistics.median(found["store"]), statistics.median(found["bare"])
    aim = f"{ours:,.0f} (aim: ≥ 5,000{'' if ours >= 5000 else ', **missed**'})"
    return table(
        ("step logs a second into SQLite, one core", "median", "beside it"),
        [
            ("the store: events, logs, results by node and host, tallies", aim, f"{bare / ours:.1f}x its time"),
            ("bare: the logs alone, into one table", f"{bare:,.0f}", "1.0x"),
        ],
    )


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=["store", "bare"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        store_one(options.one)
        return
    print(f"{machine()}\n")
    print(store(options.rounds))


if __name__ == "__main__":
    main()
