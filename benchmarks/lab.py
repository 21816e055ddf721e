"""The lab: how long hosts take to boot, what an idle one costs, how fast a lab is gone. Prints Markdown. Needs root.

python benchmarks/lab.py [--hosts 1 5 20] [--rounds 3] [--cold]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kubexm.lab import Lab
from kubexm.lab.flavours import DEFAULT, flavour
from kubexm.lab.image import ImageStore
from kubexm.lab.needs import check_platform, check_tools
from kubexm.lab.places import cache_directory
from kubexm.lab.systems import DEFAULT_SYSTEM, SYSTEMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One lab from nothing to nothing: seconds, and bytes per host."""

    up: float
    boots: tuple[float, ...]
    again: float
    memory: float
    disk: float
    down: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="also build the image, with nothing cached")
    chosen = parser.parse_args()
    check_platform("up")
    check_tools(log=Path("/dev/null"))
    cold = build_image() if chosen.cold else None
    ImageStore(cache_directory()).layers(SYSTEMS[DEFAULT_SYSTEM], flavour(DEFAULT))

    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores; {load:.1f} runnable processes before the start. Medians of {chosen.rounds} rounds.\n"
    )
    if cold is not None:
        print(f"The image from nothing (packages downloaded): {cold:.0f} s.\n")
    print("| hosts | all up, s | one host's boot, s | slowest, s | up again, s | memory per idle host, MiB ", end="")
    print("| disk per new host, MiB | down, s |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for hosts in chosen.hosts:
        print(row(hosts, [measure(hosts) for _ in range(chosen.rounds)]), flush=True)


def build_image() -> float:
    """Seconds until an image is there, in a cache that was empty."""
    with tempfile.TemporaryDirectory(prefix="kubexm-bench-") as cache:
        began = time.monotonic()
        ImageStore(Path(cache)).layers(SYSTEMS[DEFAULT_SYSTEM], flavour(DEFAULT))
        return time.monotonic() - began


def measure(hosts: int) -> Round:
    """Bring a lab up, up again and down."""
    lab = Lab(f"bench-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="kubexm-bench-") as folder:
        try:
            began = time.monotonic()
            booted = lab.up(hosts=hosts, save=Path(folder) / "cluster.yaml")
            up = time.monotonic() - began
            assert all(host.state == "running" for host in booted), booted
            began = time.monotonic()
            lab.up()
            again = time.monotonic() - began
            memory = sum(proportional_memory(pid) for host in lab.hosts for pid in host.machine.group.pids())
            disk = sum(host.disk.image.stat().st_blocks * 512 for host in lab.hosts)
        finally:
            began = time.monotonic()
            lab.down()
            down = time.monotonic() - began
    boots = tuple(host.seconds for host in booted)
    return Round(up=up, boots=boots, again=again, memory=memory / hosts, disk=disk / hosts, down=down)


def proportional_memory(pid: int) -> int:
    """A process's memory with its share of what it shares, in bytes; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def row(hosts: int, rounds: list[Round]) -> str:
    figures = [
        statistics.median(each.up for each in rounds),
        statistics.median(statistics.median(each.boots) for each in rounds),
        statistics.median(max(each.boots) for each in rounds),
        statistics.median(each.again for each in rounds),
        statistics.median(each.memory for each in rounds) / 2**20,
        statistics.median(each.disk for each in rounds) / 2**20,
        statistics.median(each.down for each in rounds),
    ]
    return f"| {hosts} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |"


if __name__ == "__main__":
    main()
