"""`kubexm lab` says what is wrong before it touches anything."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kubexm.cli.lab import app
from kubexm.errors import KubexmError
from kubexm.lab import FLAVOURS
from kubexm.lab.cgroups import Hierarchy
from kubexm.lab.shape import Wanted, first_record
from kubexm.lab.state import write_record

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gets past the check for root only as root")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no labs and no images, whose control groups are a directory: nobody has to have any mounted."""
    groups = (Hierarchy(root=tmp_path / "cgroup", version=2, is_systemd=True),)
    monkeypatch.setattr("kubexm.lab.lab.hierarchies", lambda: groups)
    monkeypatch.setenv("KUBEXM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("KUBEXM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_root
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--topology", "3x2"], "'3x2' is not a topology."),
        (["up", "--hosts", "0"], "A lab cannot have 0 hosts."),
        (["up", "--hosts", "3", "--topology", "3+2"], "The topology '3+2' has 5 hosts, but --hosts says 3."),
        (["up", "--name", "My Lab"], "'My Lab' cannot be the name of a lab."),
        (["up", "--name", "../x"], "'../x' cannot be the name of a lab."),
        (["up", "--system", "debian14"], "Lab hosts cannot run 'debian14'."),
        (["up", "--system", "n9=debian13"], "--system names 'n9', which is not a host of this lab."),
        (
            ["up", "--system", "debian11", "--system", "debian13"],
            "--system says debian11 and debian13 for all hosts.",
        ),
        (["up", "--flavour", "n1"], "--flavour 'n1' names no flavour."),
        (["up", "--flavour", "n1=windows"], "There is no host flavour 'windows'."),
        (["up", "--flavour", "n9=nopython"], "--flavour names 'n9', which is not a host of this lab."),
        (["up", "--disk", "big"], "'big' is not a size."),
        (["up", "--disk", "1M"], "A disk of 1048576 bytes is too small for a host."),
        (["up", "--save", "no/such/place.yaml"], "There is no directory"),
        (["up", "--bundle", "nothing"], "There is no bundle"),
        (["down", "../x"], "'../x' cannot be the name of a lab."),
        (["down"], "There is no lab 'lab'."),
        (["cut", "n1"], "There is no lab 'lab'."),
        (["kill", "--name", "other", "n1"], "There is no lab 'other'."),
        (["fill", "n1"], "There is no lab 'lab'."),
    ],
)
def test_bad_input_is_said_and_leaves_nothing(machine: Path, arguments: list[str], message: str) -> None:
    error = _error(_run(*arguments))
    assert message in error.message
    assert error.hint
    labs = machine / "state" / "labs"
    assert not labs.exists() or not list(labs.iterdir())
    assert not list(machine.glob("*.yaml"))


@needs_root
def test_a_file_in_the_way_is_said_before_anything_is_made(machine: Path) -> None:
    (machine / "lab.yaml").write_text("mine")
    assert "was not written by this lab" in _error(_run("up")).message
    assert (machine / "lab.yaml").read_text() == "mine"
    assert not list((machine / "state" / "labs").iterdir())


@pytest.mark.parametrize("command", [["up"], ["cut", "n1"], ["heal", "n1"], ["kill", "n1"], ["start", "n1"], ["down"]])
def test_without_root_the_way_to_get_it_is_said(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    error = _error(_run(*command))
    assert error.message.startswith(f"`kubexm lab {command[0]}` needs root")
    assert error.hint == f"Run `sudo kubexm lab {command[0]}`."


def test_a_host_that_is_not_there(machine: Path) -> None:
    _make(machine, "lab", hosts=2)
    error = _error(_run("ssh", "n3"))
    assert error.message == "The lab 'lab' has no host 'n3'."
    assert error.hint == "Its hosts are n1, n2."
    _make(machine, "big", hosts=20)
    assert _error(_run("ssh", "--name", "big", "n21")).hint == "Its hosts are n1 to n20."


def test_of_several_labs_one_must_be_chosen(machine: Path) -> None:
    _make(machine, "one")
    assert "has no host 'n9'" in _error(_run("ssh", "n9")).message
    _make(machine, "two")
    error = _error(_run("ssh", "n9"))
    assert (error.message, error.hint) == ("There are several labs.", "Say which one: one, two.")
    _make(machine, "lab")
    assert _error(_run("ssh", "n9")).message == "The lab 'lab' has no host 'n9'."
    assert _error(_run("ssh", "--name", "two", "n9")).message == "The lab 'two' has no host 'n9'."


def test_status_of_none_and_of_some(machine: Path) -> None:
    assert _run("status").stdout.startswith("There are no labs.")
    assert json.loads(_run("status", "-o", "json").stdout) == []
    _make(machine, "one", hosts=2)
    (shown,) = json.loads(_run("status", "-o", "json").stdout)
    assert shown["name"] == "one"
    assert [(host["name"], host["state"]) for host in shown["hosts"]] == [("n1", "off"), ("n2", "off")]
    assert "n2" in _run("status").stdout


def test_flavours_are_listed() -> None:
    listed = json.loads(_run("flavours", "-o", "json").stdout)
    assert [each["name"] for each in listed] == list(FLAVOURS)
    assert all(name in _run("flavours").stdout for name in FLAVOURS)


def test_ssh_takes_the_place_of_the_command_with_exact_arguments(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(machine, "lab")
    calls: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _program, words: calls.append(words))
    for arguments in (["n1"], ["n1", "ls", "-l", "a b"], ["n1", "--", "-x"], ["-l", "ops", "n1", "id | wc"]):
        _run("ssh", *arguments)
    tails = [words[words.index("-l") :] for words in calls]
    address = "10.210.200.11"
    assert tails == [
        ["-l", "root", address],
        ["-l", "root", address, "--", "ls -l 'a b'"],
        ["-l", "root", address, "--", "-x"],
        ["-l", "ops", address, "--", "id | wc"],
    ]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def _error(result: Result) -> KubexmError:
    assert isinstance(result.exception, KubexmError), result.output
    return result.exception


def _make(machine: Path, name: str, *, hosts: int = 1) -> None:
    """A lab that exists on paper only."""
    folder = machine / "state" / "labs" / name
    folder.mkdir(parents=True)
    subnet = IPv4Network("10.210.200.0/24")
    write_record(folder, first_record(name, Wanted(hosts=hosts), prefix="kxnone", subnet=subnet))
