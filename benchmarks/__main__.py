"""Runs benchmarks one after the other, never at once, and prints their tables: `python -m benchmarks NAME… --write`.

With --write the tables also take the place of those in docs/benchmarks.md, between that benchmark's two comments.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.report import say

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "benchmarks.md"
TABLES = ROOT / "artifacts" / "benchmarks"
SHARED = {"__main__", "hosts", "report"}
BUSY = 1.0


def names() -> list[str]:
    """Every benchmark there is."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED)


def run(name: str) -> str:
    """Its tables, printed as they come and kept under artifacts/."""
    lines = []
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(f"error: the benchmark {name} ended with {process.returncode}")
    text = "".join(lines).strip() + "\n"
    TABLES.mkdir(parents=True, exist_ok=True)
    (TABLES / f"{name}.md").write_text(text)
    return text


def written(page: str, name: str, tables: str) -> str:
    """The page with these tables in their place."""
    begin, end = f"<!-- {name}: as measured -->\n", f"<!-- end of {name} -->\n"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"error: {PAGE.name} has no place for {name}\n  → add the lines\n{begin}{end}")
    return f"{head}{begin}\n{tables}\n{end}{tail}"


def main() -> None:
    """Runs those named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names())}; none: all")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: there are {', '.join(names())}")
    load = os.getloadavg()[0]
    if load > BUSY:
        say(f"warning: this machine is busy with other things (load {load:.1f}): times will be long and vary")
    for name in options.names or names():
        print(f"\n## {name}\n", flush=True)
        tables = run(name)
        if options.write:
            PAGE.write_text(written(PAGE.read_text(), name, tables))


if __name__ == "__main__":
    main()
