"""kubexm as a user runs it, on a cluster file: whole commands, killed ones, and what they said."""

from __future__ import annotations

import base64
import io
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from kubexm.lab import Lab

__all__ = [
    "Outcome",
    "asked_from_here",
    "asked_meanwhile",
    "assert_named",
    "assert_nothing_to_do",
    "create",
    "edit",
    "ended",
    "killed",
    "kubectl",
    "kubexm",
    "nodes_seen_from_here",
    "ready_nodes",
    "resume",
    "start_kubexm",
    "started_kubexm",
]

# Asks until it is told to stop, or for some minutes at most.
_ASK = """rm -f /tmp/asked
for i in $(seq 1000); do
  if [ -e /tmp/asked ]; then break; fi
  curl -sk --max-time 5 -o /dev/null -w '%{http_code}\\n' https://127.0.0.1:6443/livez
  sleep 0.3
done
rm -f /tmp/asked"""


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
    order: list[tuple[str, str]]
    """What happened to which node, as it happened: `("unit.running", "kubeadm.run.manifests.n1")`."""
    stderr: str

    @property
    def changed(self) -> set[str]:
        """The nodes that changed something, without the host a rolling copy is for."""
        return {".".join(node.split(".")[:3]) for (node, _), state in self.states.items() if state == "succeeded"}


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


def resume(lab: Lab) -> Outcome:
    """A resume of the last run that must end well."""
    done = kubexm(lab.cluster_file, "runs", "resume", "last")
    assert done.exit_code == 0, (done.stderr[-2000:], done.errors)
    return done


def assert_nothing_to_do(lab: Lab) -> None:
    """A second run changes nothing and says so."""
    again = create(lab)
    assert again.result["changed"] is False, again.changed


def assert_named(done: Outcome, host: str) -> None:
    """The run failed, and what the user is told has the host, the step and what to do."""
    assert done.exit_code == 1, (done.stderr[-2000:], done.errors)
    told = [cause for cause in done.result["causes"] if host in cause["hosts"]]
    assert told, done.result["causes"]
    assert all(cause["node"] and cause["step"] for cause in told), told
    errors = [reason["error"] for cause in told for reason in cause["reasons"] if host in reason["hosts"]]
    assert any(error["message"] and error.get("hint") for error in errors), errors
    assert "runs resume" in done.result["resume"]


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


def ready_nodes(lab: Lab, host: str = "n1") -> set[str]:
    """The nodes that say they are Ready."""
    found = json.loads(kubectl(lab, "get", "nodes", "-o", "json", host=host))
    return {
        node["metadata"]["name"]
        for node in found["items"]
        if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    }


@contextmanager
def asked_meanwhile(lab: Lab, host: str) -> Iterator[list[str]]:
    """Asks a host's own balancer for the API all the while; afterwards the list has the status of every answer."""
    answers: list[str] = []
    process = subprocess.Popen(lab.ssh_command(host, _ASK), stdout=subprocess.PIPE, text=True)
    try:
        yield answers
    finally:
        lab.run(host, "touch", "/tmp/asked")
        answers += process.communicate(timeout=60)[0].split()


def asked_from_here(lab: Lab, path: str) -> tuple[str, dict[str, Any]]:
    """What the API answers the user of this machine, by the kubeconfig that create left: at which address, and what."""
    text = (lab.cluster_file.parent / ".kubexm" / lab.name / "kubeconfig").read_text()
    config = YAML(typ="safe").load(text)
    [current] = (one["context"] for one in config["contexts"] if one["name"] == config["current-context"])
    [cluster] = (one for one in config["clusters"] if one["name"] == current["cluster"])
    [user] = (one for one in config["users"] if one["name"] == current["user"])
    where = urlsplit(cluster["cluster"]["server"])
    decoded = {key: base64.b64decode(value).decode() for key, value in user["user"].items()}
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile("w") as pair:
        pair.write(decoded["client-certificate-data"] + decoded["client-key-data"])
        pair.flush()
        context.load_cert_chain(pair.name)
    connection = HTTPSConnection(where.hostname or "", where.port, context=context, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        return where.hostname or "", said
    finally:
        connection.close()


def nodes_seen_from_here(lab: Lab) -> tuple[str, set[str]]:
    """Where the user's kubeconfig leads on this machine, and the nodes the API tells of there."""
    address, said = asked_from_here(lab, "/api/v1/nodes")
    return address, {node["metadata"]["name"] for node in said["items"]}


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
        order=[(event["kind"], event["node"]) for event in events if event["kind"].startswith("unit.")],
        stderr=stderr,
    )
