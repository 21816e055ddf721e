"""kubexm as a user runs it, on a cluster file: whole commands, killed ones, and what they said."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kubexm.lab import Lab

__all__ = ["Outcome", "edit", "ended", "killed", "kubectl", "kubexm", "start_kubexm", "started_kubexm"]


@dataclass(frozen=True)
class Outcome:
    """What a command of kubexm said."""

    exit_code: int
    result: dict[str, Any]
    warnings: dict[tuple[str, str], list[str]]
    errors: dict[tuple[str, str], dict[str, Any]]
    states: dict[tuple[str, str], str]
    ran: set[tuple[str, str]]
    """What was begun to be changed by this very command, whatever an earlier part of the run did."""
    diffs: dict[tuple[str, str], str]
    """What was or, in a dry run, would be changed in files."""
    stderr: str

    @property
    def changed(self) -> set[str]:
        """The nodes that changed something, without the host a rolling copy is for."""
        return {node.partition("@")[0] for (node, _), state in self.states.items() if state == "succeeded"}


def kubexm(file: Path, *words: str, timeout: float = 900) -> Outcome:
    """Runs the command as a user would, and reads its stream of events."""
    done = subprocess.run(
        _line(file, words), capture_output=True, text=True, timeout=timeout, cwd=file.parent, check=False
    )
    return _outcome(done.returncode, done.stdout, done.stderr)


def create(lab: Lab, *options: str) -> Outcome:
    """A create that must end well, its proof included."""
    done = kubexm(lab.cluster_file, "create", "cluster", *options)
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    return done


def start_kubexm(file: Path, *words: str) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    return subprocess.Popen(
        _line(file, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=file.parent
    )


def started_kubexm(file: Path, *words: str, until: str, within: float = 600) -> subprocess.Popen[str]:
    """Started, and gone on until a unit whose node starts so is running or done (or the command is over)."""
    process = start_kubexm(file, *words)
    assert process.stdout is not None
    deadline = time.monotonic() + within
    for line in process.stdout:
        event = json.loads(line)
        if event["kind"] in ("unit.running", "unit.done") and event["node"].startswith(until):
            return process
        if time.monotonic() > deadline:
            break
    process.kill()
    raise AssertionError(f"{until} did not begin: {process.communicate()[1][-2000:]}")


def killed(process: subprocess.Popen[str]) -> None:
    """Ends it as a power cut would."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def ended(process: subprocess.Popen[str], timeout: float = 900) -> Outcome:
    """What the rest of a started command says."""
    out, err = process.communicate(timeout=timeout)
    return _outcome(process.returncode, out, err)


def kubectl(lab: Lab, *words: str, host: str = "n1", timeout: float = 120) -> str:
    """What kubectl prints on a control plane; its cache goes where things come and go."""
    access = ("--kubeconfig", "/etc/kubernetes/admin.conf", "--cache-dir", "/tmp/kubectl")
    return lab.run(host, "kubectl", *access, *words, timeout=timeout)


def edit(file: Path, **sections: Any) -> None:
    """Lays values over sections of the spec: `edit(file, kubernetes={"type": "kubexm"})`."""
    yaml = YAML()
    document = yaml.load(file.read_text())
    for section, values in sections.items():
        below = document["spec"].get(section)
        if isinstance(below, dict) and isinstance(values, dict):
            below.update(values)
        else:
            document["spec"][section] = values
    out = io.StringIO()
    yaml.dump(document, out)
    file.write_text(out.getvalue())


def _line(file: Path, words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "kubexm", *words, "-f", str(file), "-o", "json"]


def _outcome(exit_code: int, stdout: str, stderr: str) -> Outcome:
    events: list[dict[str, Any]] = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    done = [event for event in events if event["kind"] == "unit.done"]

    def name(event: dict[str, Any]) -> tuple[str, str]:
        return event["node"], event["host"]

    return Outcome(
        exit_code=exit_code,
        result=next((event["data"] for event in events if event["kind"] == "result"), {}),
        warnings={name(event): event["data"]["warnings"] for event in done if event["data"].get("warnings")},
        errors={name(event): event["data"]["error"] for event in done if "error" in event["data"]},
        states={name(event): event["data"]["state"] for event in done},
        ran={name(event) for event in events if event["kind"] == "unit.running"},
        diffs={name(event): event["data"]["diff"] for event in done if event["data"].get("diff")},
        stderr=stderr,
    )
