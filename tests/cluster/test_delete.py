"""Delete gives hosts back as they were before create: proven by comparing all that could differ."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.host_snapshot import Snapshot, allowed_to_differ, take


@dataclass(frozen=True)
class Outcome:
    """What a command of kubexm said."""

    exit_code: int
    result: dict[str, Any]
    warnings: dict[tuple[str, str], list[str]]
    errors: dict[tuple[str, str], dict[str, Any]]
    states: dict[tuple[str, str], str]
    stderr: str


def kubexm(file: Path, *words: str, timeout: float = 900) -> Outcome:
    """Runs the command as a user would, and reads its stream of events."""
    line = [sys.executable, "-m", "kubexm", *words, "-f", str(file), "-o", "json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, cwd=file.parent, check=False)
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [event for event in events if event["kind"] == "unit.done"]

    def name(event: dict[str, Any]) -> tuple[str, str]:
        return event["node"], event["host"]

    return Outcome(
        exit_code=done.returncode,
        result=next((event["data"] for event in events if event["kind"] == "result"), {}),
        warnings={name(event): event["data"]["warnings"] for event in ended if event["data"].get("warnings")},
        errors={name(event): event["data"]["error"] for event in ended if "error" in event["data"]},
        states={name(event): event["data"]["state"] for event in ended},
        stderr=done.stderr,
    )


def create(lab: Lab, *options: str) -> None:
    done = kubexm(lab.cluster_file, "create", "cluster", *options)
    assert done.exit_code == 0, (done.stderr, done.errors)


def delete(lab: Lab, *options: str) -> Outcome:
    return kubexm(lab.cluster_file, "delete", "cluster", "--yes", *options)


def snapshots(lab: Lab) -> dict[str, Snapshot]:
    return {host.name: take(lab, host.name) for host in lab.hosts}


def assert_as_before(before: dict[str, Snapshot], lab: Lab) -> None:
    allowed = allowed_to_differ()
    for name, snapshot in before.items():
        assert snapshot.differences(take(lab, name), allowed) == [], name


@pytest.fixture(scope="module")
def single(make_lab: Callable[..., Lab]) -> Lab:
    """One host that is everything."""
    return make_lab(topology="single")


@pytest.mark.timeout(1800)
def test_hosts_are_as_before(single: Lab) -> None:
    before = snapshots(single)
    create(single)
    differs = before["n1"].differences(take(single, "n1"), allowed_to_differ())
    for section in ("file", "unit", "mount", "interface", "rule", "process", "sysctl", "route", "port"):
        assert any(line.startswith(f"{section} ") for line in differs), f"a cluster that changes no {section}?"
    done = delete(single)
    assert (done.exit_code, done.errors, done.warnings) == (0, {}, {}), done.stderr
    assert done.states["removal.host.workloads", "n1"] == "succeeded", "what runs is stopped before all else"
    assert_as_before(before, single)
    work = single.cluster_file.parent / ".kubexm" / single.name
    assert sorted(path.name for path in work.rglob("*") if path.is_file() and "runs" not in path.parts) == []

    again = delete(single)
    assert (again.exit_code, again.result["changed"]) == (0, False)
