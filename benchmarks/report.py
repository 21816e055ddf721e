"""How figures are shown: medians with their spread, ratios, Markdown tables. Must not know what was measured."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["Rounds", "interleaved", "machine", "say", "spread", "table", "target"]

Rounds = Mapping[str, Sequence[float]]


def say(text: str) -> None:
    """Progress, for whoever waits; never part of the figures."""
    print(text, file=sys.stderr, flush=True)


def interleaved(
    ways: Mapping[str, Callable[[], float]], rounds: int, *, fewer: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Runs all ways in turn, so often, or `fewer` times; what disturbs the machine disturbs them alike."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, run in ways.items():
            if fewer is None or number < fewer.get(name, rounds):
                found[name].append(run())
        say(f"round {number + 1} of {rounds}: " + ", ".join(f"{name} {found[name][-1]:.2f}" for name in ways))
    return found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and between what the values lay."""
    middle = statistics.median(values)
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def target(value: float, limit: str) -> str:
    """The value beside what was aimed at (`≤ 1.1` or `≥ 8`), and whether it was met."""
    sign, number = limit.split()
    met = value <= float(number) if sign == "≤" else value >= float(number)
    return f"{value:.2f}x (aim: {sign} {number}{'' if met else ', **missed**'})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """One line on the machine, and how busy it is with other things."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    system = next((line.split('"')[1] for line in _lines("/etc/os-release") if line.startswith("PRETTY_NAME")), "Linux")
    cpus = len(os.sched_getaffinity(0))
    return (
        f"{cpus} x {model}, {memory / 2**20:.0f} GiB, {system}, Linux {platform.release()}, "
        f"Python {platform.python_version()}; load {os.getloadavg()[0]:.1f} before it began"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
