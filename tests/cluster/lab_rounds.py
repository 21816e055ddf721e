"""Runs inside a sandbox: brings a lab up and down in different ways, and compares the machine before and after."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

KUBEXM = [sys.executable, "-m", "kubexm"]


def main() -> None:
    """`lab_rounds.py HOSTS SEED ROUNDS WORKDIR`: prints one JSON object per round."""
    hosts, seed, rounds, work = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    os.chdir(work)
    before = snapshot(work)
    began = time.monotonic()
    up = ["lab", "up", "--hosts", str(hosts)]
    report("whole", partial(kubexm, *up), before, work)
    longest = time.monotonic() - began
    chance = random.Random(seed)
    for number in range(rounds):
        # Evenly spread over the time a run takes, each at a random place in its own part.
        delay = longest * (number + chance.random()) / rounds
        report(f"up killed after {delay:.2f} s", partial(killed, up, delay), before, work)
    for number in range(rounds // 3):
        delay = longest / 3 * (number + chance.random()) / (rounds // 3)
        report(f"down killed after {delay:.2f} s", partial(killed_down, up, delay), before, work)


def report(what: str, act: Callable[[], str], before: dict[str, list[str]], work: Path) -> None:
    """Do it, take the lab down, and say what is there that was not, and the other way round."""
    said = act()
    there = sorted(set(snapshot(work)["mounts"]) - set(before["mounts"]))
    down = subprocess.run([*KUBEXM, "lab", "down"], capture_output=True, text=True, check=False)
    reap()
    after = snapshot(work)
    difference = {
        kind: {
            "left": sorted(set(after[kind]) - set(before[kind])),
            "lost": sorted(set(before[kind]) - set(after[kind])),
        }
        for kind in before
        if after[kind] != before[kind]
    }
    outcome = {"what": what, "said": said, "mounts": len(there), "down": down.returncode, "error": down.stderr}
    sys.stdout.write(json.dumps({**outcome, "difference": difference}) + "\n")
    sys.stdout.flush()


def kubexm(*arguments: str) -> str:
    done = subprocess.run([*KUBEXM, *arguments], capture_output=True, text=True, check=False)
    return "done" if done.returncode == 0 else f"failed: {done.stderr}"


def killed_down(up: list[str], delay: float) -> str:
    """A lab that came up, and whose removal is killed after `delay` seconds."""
    said = kubexm(*up)
    return killed(["lab", "down"], delay) if said == "done" else said


def killed(arguments: list[str], delay: float) -> str:
    """A run that is killed after `delay` seconds, or is done before that."""
    command = [*KUBEXM, *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return "killed"
    return "done"


def snapshot(work: Path) -> dict[str, list[str]]:
    """All that a lab could leave on a machine."""
    return {
        "processes": sorted(processes()),
        "mounts": sorted(line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "routes": output("ip", "route", "show", "table", "all") + output("ip", "-6", "route", "show", "table", "all"),
        "rules": output("ip", "rule") + output("nft", "list", "ruleset"),
        "settings": [Path("/proc/sys/net/ipv4/ip_forward").read_text()],
        "groups": sorted(folder for folder, _, _ in os.walk("/sys/fs/cgroup")),
        "loops": sorted(loops(work)),
        "files": sorted(files(work)),
    }


def processes() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (1, os.getpid()):
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            found.append(f"{entry.name} {state} {command}")
    return found


def files(work: Path) -> list[str]:
    """Files and directories in the lab's places, and in /run."""
    found = []
    for top in (work, Path("/run"), Path(os.environ["KUBEXM_STATE"])):
        for folder, folders, names in os.walk(top):
            found += [str(Path(folder) / name) for name in (*folders, *names)]
    cache = Path(os.environ["KUBEXM_CACHE"]) / "lab"
    found += [str(path) for path in cache.glob("tmp-*")]
    return found


def loops(work: Path) -> list[str]:
    backing = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [path for path in backing if path.startswith((str(work), os.environ["KUBEXM_STATE"]))]


def output(*command: str) -> list[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    except FileNotFoundError:
        return []


def reap() -> None:
    """This is process number 1 here: what lost its parent becomes its child, and must be seen off."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


if __name__ == "__main__":
    main()
