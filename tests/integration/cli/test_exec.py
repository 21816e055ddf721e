"""`kubexm exec` over real sshd: signals, timeouts, odd hosts, and what is refused before anything is connected."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from kubexm.testing import SshServer
from tests.integration.cli.conftest import Fleet, write_file
from tests.integration.conftest import MakeServer

SCRIPT = (
    "mkdir -p /run/work; touch /run/waiting; until [ -e /run/go ]; do sleep 0.05; done; touch /run/work/last; hostname"
)
"""Runs until somebody says go."""


def lines_until(process: subprocess.Popen[str], text: str) -> str:
    """What it prints, up to and with the line that holds the text."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} never came:\n{seen}")


def test_ctrl_c_once_lets_running_commands_finish(fleet: Fleet) -> None:
    process = fleet.start("exec", "--parallel", "1", "-v", "--", SCRIPT)
    try:
        lines = ""
        running = next(host for host in _until_one_waits(fleet))
        process.send_signal(signal.SIGINT)
        lines = lines_until(process, "finishing what runs, starting nothing")
        fleet.on(running, "touch /run/go")
        rest, _ = process.communicate(timeout=60)
        lines += rest
    finally:
        process.kill()
    assert process.returncode == 130, lines
    (other,) = set(fleet.servers) - {running}
    assert f"── {running}\n{running}\n" in lines
    assert f"error: {other}: cancelled: not started" in lines
    assert fleet.on(running, "[ -e /run/work/last ]") == 0
    assert fleet.on(other, "[ -e /run/waiting ]") != 0


@pytest.mark.parametrize("signals", [["SIGINT", "SIGINT"], ["SIGTERM"], ["SIGHUP"]])
def test_ctrl_c_twice_and_termination_end_the_command_on_the_hosts(fleet: Fleet, signals: list[str]) -> None:
    process = fleet.start("exec", "--", SCRIPT)
    try:
        for host in fleet.servers:
            fleet.wait_on(host, "[ -e /run/waiting ]")
        lines = ""
        for count, name in enumerate(signals, 1):
            process.send_signal(signal.Signals[name])
            lines += lines_until(process, "starting nothing" if count < len(signals) else "stopping now")
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, lines + rest
    assert "error: n1, n2: cancelled: stopped before the command finished" in rest
    for server in fleet.servers.values():
        assert [line for line in server.processes() if "sleep 0.05" in line] == []


def test_a_timeout_shows_the_output_so_far(fleet: Fleet) -> None:
    script = "echo out; echo err >&2; sleep 60"
    done = fleet.kubexm("exec", "--timeout", "1", "--", script, check=1)
    assert done.stdout == "── n1, n2 (2 hosts): timed out\nout\n"
    assert "err\n" in done.stderr
    lines = fleet.kubexm("exec", "--timeout", "1", "-o", "json", "--", script, check=1).stdout.splitlines()
    found = {answer["host"]: answer for answer in map(json.loads, lines)}
    assert set(found) == {"n1", "n2"}
    assert all(answer["timed_out"] and answer["stdout"] == "out" for answer in found.values())


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300", "0", "-1"])
def test_timeouts_out_of_range_are_refused(fleet: Fleet, seconds: str) -> None:
    refused = fleet.kubexm("exec", "--timeout", seconds, "--", "touch /run/gone", check=2)
    assert "--timeout" in refused.stderr
    assert fleet.on("n1", "[ -e /run/gone ]") != 0


@pytest.mark.parametrize(
    "arguments", [["--limit", ""], ["--role", ""], ["--limit", "n1", "--limit", " "], ["--role", ","]]
)
def test_an_empty_selection_is_refused(fleet: Fleet, arguments: list[str]) -> None:
    """An unset variable in a script must not mean all hosts."""
    for verb in (["exec", *arguments, "--", "touch /run/gone"], ["facts", *arguments]):
        assert f"error: {arguments[-2]} is empty" in fleet.kubexm(*verb, check=2).stderr
    assert fleet.on("n1", "[ -e /run/gone ]") != 0
    assert "error: the command is empty" in fleet.kubexm("exec", "--", " ", check=2).stderr


def test_a_shell_that_exits_at_once_keeps_no_other_host_waiting(fleet: Fleet, make_sshd: MakeServer) -> None:
    odd: SshServer = make_sshd(options={"ForceCommand": "/bin/false"})
    write_file(fleet.file, {**fleet.servers, "odd": odd})
    for how in ("--sudo", "--no-sudo"):
        done = fleet.kubexm("exec", how, "--", "echo fine", check=3)
        assert done.stdout == "── n1, n2 (2 hosts)\nfine\n"
        assert "error: odd: the login succeeded, but the session ended before a shell started" in done.stderr


def _until_one_waits(fleet: Fleet) -> list[str]:
    for _ in range(600):
        if found := [host for host in fleet.servers if fleet.on(host, "[ -e /run/waiting ]") == 0]:
            return found
    raise AssertionError("it never ran")
