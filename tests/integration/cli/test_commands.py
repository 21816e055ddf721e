"""The command line as users have it: its own process, real sshd, real signals, what it prints and how it exits."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cli.conftest import REPO, Fleet


def test_looking(fleet: Fleet) -> None:
    facts = fleet.kubexm("facts").stdout.splitlines()
    assert [line.split()[0] for line in facts] == ["HOST", "n1", "n2"]
    assert set(json.loads(fleet.kubexm("facts", "-o", "json", "-l", "n2").stdout)) == {"n2"}

    same = fleet.kubexm("exec", "--", "echo", "a  b", "$HOME").stdout
    assert same == "── n1, n2 (2 hosts)\na  b $HOME\n"
    assert fleet.kubexm("exec", "--", "hostname").stdout == "── n1\nn1\n── n2\nn2\n"
    failed = fleet.kubexm("exec", "-l", "n2", "--", "echo out; echo err >&2; exit 3", check=1)
    assert (failed.stdout, failed.stderr) == ("── n2: exit code 3\nout\n", "err\n")
    lines = fleet.kubexm("exec", "-o", "json", "--role", "etcd", "--", "true").stdout.splitlines()
    assert [(answer["host"], answer["exit_code"]) for answer in map(json.loads, lines)] == [("n1", 0)]


def test_looking_needs_no_work_directory(fleet: Fleet) -> None:
    place = str(fleet.file / "below-a-file")
    assert len(fleet.kubexm("facts", "--work-dir", place).stdout.splitlines()) == 3
    refused = fleet.kubexm("preflight", "--work-dir", place, check=1).stderr
    assert "the work directory cannot be made" in refused
    assert "→ choose another with --work-dir\n" in refused


def test_hosts_that_do_not_answer(fleet: Fleet) -> None:
    fleet.file.write_text(fleet.file.read_text().replace(f"port: {fleet.servers['n2'].port}", "port: 1"))
    facts = fleet.kubexm("facts", check=3)
    assert facts.stdout.splitlines()[1].startswith("n1 ")
    assert facts.stderr.startswith("error: n2")
    assert "  → " in facts.stderr
    assert fleet.kubexm("exec", "--", "true", check=3).stdout == "── n1\n"
    run = fleet.kubexm("plan", "work", check=3)
    assert run.stderr.startswith("error: 1 host could not be initialised:\n  n2: ")


def test_preflight_tells_what_to_do_about_hosts_it_cannot_reach(fleet: Fleet) -> None:
    text = fleet.file.read_text().replace(f"port: {fleet.servers['n2'].port}", "port: 1")
    text = text.replace(f', hostKey: "{fleet.servers["n1"].fingerprint}"', "")
    fleet.file.write_text(text.replace("spec:\n", "spec:\n  global: {knownHostsFile: none}\n"))
    done = fleet.kubexm("preflight", check=3).stdout
    assert "  unreached n1: the host key of 127.0.0.21 is not known: ssh-ed25519 SHA256:" in done
    assert "run again with --accept-new-host-keys" in done
    assert "  unreached n2: 127.0.0.22 port 1 refuses connections\n    → is sshd running there" in done
    result = json.loads(fleet.kubexm("preflight", "-o", "json", check=3).stdout.splitlines()[-1])["data"]
    assert set(result["hints"]) == {"n1", "n2"}


def test_a_worker_within_the_budget_is_left_behind(fleet: Fleet) -> None:
    fleet.on("n1", "touch /run/go")
    fleet.on("n2", "touch /run/go")
    text = fleet.file.read_text().replace("maxFailedWorkers: 0", "maxFailedWorkers: 10%")
    fleet.file.write_text(text.replace(f"port: {fleet.servers['n2'].port}", "port: 1"))
    planned = fleet.kubexm("plan", "work", "--save", "work.kxp")
    assert "warning: n2 could not be reached, and is within the failure budget" in planned.stderr
    done = fleet.kubexm("apply", "work.kxp", check=4).stdout
    assert "work: done, except for 1 lost host after" in done
    assert "  lost n2: " in done
    fleet.file.write_text(text)
    resumed = fleet.kubexm("runs", "resume", "last").stdout
    assert "work: done after" in resumed
    assert "+ work.do.wait on n2" in resumed or "+ work.do.wait on n1, n2" in resumed
    assert fleet.on("n2", "[ -e /run/work/last ]") == 0


def test_preflight_and_its_runs(fleet: Fleet) -> None:
    done = fleet.kubexm("preflight", check=1)
    assert "✗ failed preflight.system.init on n1, n2" in done.stdout
    assert "→ " in done.stdout
    assert "runs resume" not in done.stdout, "what only looks is run again, not resumed"
    events = [json.loads(line) for line in fleet.kubexm("preflight", "-o", "json", check=1).stdout.splitlines()]
    assert [events[0]["kind"], events[1]["kind"], events[-1]["kind"]] == ["plan", "run.started", "result"]
    result = events[-1]["data"]
    assert (result["status"], result["exit_code"]) == ("failed", 1)
    assert {cause["node"] for cause in result["causes"]} >= {"preflight.system.init"}

    listed = json.loads(fleet.kubexm("runs", "list", "-o", "json").stdout)
    assert [run["status"] for run in listed] == ["failed", "failed"]
    assert listed[0]["id"] == result["run"], "the latest first"
    assert "preflight.system.init on n1, n2" in fleet.kubexm("runs", "show", "last").stdout
    assert "init" in fleet.kubexm("runs", "logs", "last", "preflight.system", "--failed").stdout
    assert fleet.kubexm("runs", "show", "nonsense", check=2).stderr.startswith("error: there is no run 'nonsense'")
    assert "name of the run is empty" in fleet.kubexm("runs", "show", "", check=2).stderr
    unknown = fleet.kubexm("runs", "logs", "last", "preflight.system.initt", check=2).stderr
    assert "no step of this run is called 'preflight.system.initt'" in unknown
    assert "did you mean `preflight.system.init`?" in unknown
    assert "this run has no host 'n3'" in fleet.kubexm("runs", "logs", "last", "preflight", "n3", check=2).stderr
    assert "There is no output." in fleet.kubexm("runs", "logs", "last", "preflight.system.os", "--failed").stderr


def test_a_saved_plan_is_carried_out_or_refused(fleet: Fleet) -> None:
    shown = fleet.kubexm("plan", "work", "--save", "work.kxp").stdout
    assert "└─ last" in shown
    dry = fleet.kubexm("apply", "work.kxp", "--dry-run").stdout
    assert "6 would change" in dry
    assert "      +one\n      +two\n" in dry
    for host in fleet.servers:
        fleet.on(host, "touch /run/go")
    done = fleet.kubexm("apply", "work.kxp").stdout
    assert "work: done after" in done
    assert "+ work.do.wait on n1, n2: " in done
    assert fleet.on("n2", "grep -qx done /run/work/last") == 0
    again = fleet.kubexm("apply", "work.kxp").stdout
    assert "nothing changed, all is as it should be" in again
    assert "the plans are the same" in fleet.kubexm("plan", "work", "--diff", "work.kxp").stdout

    text = fleet.file.read_text()
    fleet.file.write_text(text.replace("worker: [n1, n2]", "worker: [n2]"))
    refused = fleet.kubexm("apply", "work.kxp", check=2)
    assert refused.stderr.startswith("error: this plan no longer fits:\n")
    assert "make it again with `kubexm plan --save`" in refused.stderr


def test_a_failure_is_told_once_and_resumed(fleet: Fleet) -> None:
    fleet.kubexm("plan", "work", "--save", "work.kxp")
    for host in fleet.servers:
        fleet.on(host, "touch /run/go")
    fleet.on("n2", "touch /run/broken")
    failed = fleet.kubexm("apply", "work.kxp", check=1).stdout
    assert "✗ failed work.do.wait on n2: " in failed
    assert "exit code: 9" in failed
    assert "fatal: broken" in failed
    assert "1 unit could not be done because of this" in failed
    log = next(line for line in failed.splitlines() if "the whole output: " in line).split(": ", 1)[1]
    assert Path(log).read_text() == "fatal: broken\n"
    resume = failed.rsplit("To go on where this stopped: kubexm ", 1)[1].split()
    fleet.on("n2", "rm /run/broken")
    resumed = fleet.kubexm(*resume).stdout
    assert "work: done after" in resumed
    shown = fleet.kubexm("runs", "show", "last").stdout
    assert "status    succeeded" in shown
    drawn = fleet.kubexm("runs", "graph", "last", "-o", "mermaid").stdout
    assert "3 nodes on 2 hosts, 6 units: succeeded after " in drawn


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c(fleet: Fleet, presses: int) -> None:
    fleet.kubexm("plan", "work", "--save", "work.kxp")
    process = fleet.start("apply", "work.kxp")
    try:
        for host in fleet.servers:
            fleet.wait_on(host, "[ -e /run/waiting ]")
        process.send_signal(signal.SIGINT)
        if presses == 1:
            fleet.on("n1", "touch /run/go")
            fleet.on("n2", "touch /run/go")
        else:
            assert process.stdout is not None
            while "finishing what runs" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    if presses == 1:
        assert "finishing what runs, starting nothing" in output
        assert "work: cancelled after" in output
        assert fleet.on("n1", "[ -e /run/gone ]") == 0, "what ran was finished"
        assert fleet.on("n1", "[ -e /run/work/last ]") != 0, "nothing was started"
    else:
        assert "✗ stopped work.do.wait on n1, n2" in output
        assert not any("sleep 0.05" in line for line in fleet.servers["n1"].processes()), "it was ended on the host"
    for host in fleet.servers:
        fleet.on(host, "touch /run/go")
    assert "work: done after" in fleet.kubexm("runs", "resume", "last").stdout


def test_killed_then_resumed_and_cancelled_from_elsewhere(fleet: Fleet) -> None:
    fleet.kubexm("plan", "work", "--save", "work.kxp")
    first = fleet.start("apply", "work.kxp")
    fleet.wait_on("n2", "[ -e /run/waiting ]")
    first.kill()
    first.communicate()
    assert json.loads(fleet.kubexm("runs", "list", "-o", "json").stdout)[0]["status"] == "interrupted"

    second = fleet.start("runs", "resume", "last")
    try:
        deadline = time.monotonic() + 60
        while json.loads(fleet.kubexm("runs", "list", "-o", "json").stdout)[0]["status"] != "running":
            assert time.monotonic() < deadline
        assert "still running" in fleet.kubexm("runs", "resume", "last", check=2).stderr
        fleet.kubexm("runs", "cancel", "last")
        for host in fleet.servers:
            fleet.on(host, "touch /run/go")
        output, _ = second.communicate(timeout=60)
    finally:
        second.kill()
    assert second.returncode in (0, 130), output
    assert "is not running" in fleet.kubexm("runs", "cancel", "last", check=2).stderr


def test_on_a_terminal(fleet: Fleet) -> None:
    for host in fleet.servers:
        fleet.on(host, "touch /run/go")
    fleet.kubexm("plan", "work", "--save", "work.kxp")
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "PYTHONPATH": str(REPO), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        environment.pop("NO_COLOR", None)
        os.chdir(fleet.file.parent)
        command = [sys.executable, "-m", "tests.integration.cli.work_pipeline", "apply", "work.kxp"]
        os.execve(sys.executable, command, environment)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    text = shown.decode()
    assert os.waitstatus_to_exitcode(status) == 0, text
    assert "━" in text
    assert "100 %" in text
    assert "\x1b[32;1mdone\x1b[0m after" in text
    assert text.count("\x1b[?25h") >= 1, "the cursor is shown again"


def test_a_plan_shows_what_would_change_as_a_diff_of_contents(fleet: Fleet) -> None:
    shown = fleet.kubexm("plan", "work", "--changes").stdout
    assert "6 would change" in shown
    assert "      +one\n      +two\n" in shown
    assert "would change" not in fleet.kubexm("plan", "work").stdout  # nothing was made of this file yet
    assert "leave one of them out" in fleet.kubexm("plan", "work", "--changes", "--offline", check=2).stderr
    assert fleet.on("n1", "[ -e /run/work ]") == 1
