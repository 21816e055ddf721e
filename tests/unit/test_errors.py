"""Errors as users meet them: the tree, what they carry, what they say."""

from __future__ import annotations

import re

import pytest

from kubexm import errors
from kubexm.errors import (
    CommandError,
    CommandTimeout,
    ConnectError,
    HostError,
    InitializationError,
    KubexmError,
    LeaseHeldError,
    telling_lines,
)

CLASSES = [getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)]


def drawn() -> dict[str, str]:
    """Each class of the drawing in the module's docstring, and the class it hangs from."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)(?:  .*)?$", line)
        if match is None or (not path and match[2] != "KubexmError"):
            continue
        depth = 0 if match[2] == "KubexmError" else len(match[1]) // 4 + 1
        path = [*path[:depth], match[2]]
        parents[match[2]] = path[depth - 1] if depth else ""
    return parents


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert drawn() == {kind.__name__: kind.__base__.__name__ if kind is not KubexmError else "" for kind in CLASSES}


def test_every_error_is_one_a_user_may_see() -> None:
    assert all(issubclass(kind, KubexmError) and kind.__doc__ for kind in CLASSES)


def test_message_hint_and_host() -> None:
    error = ConnectError("port 22 is closed", host="n1", hint="is sshd running?")
    assert (str(error), error.message, error.hint, error.host) == (
        "port 22 is closed",
        "port 22 is closed",
        "is sshd running?",
        "n1",
    )
    assert LeaseHeldError("held", owner="me", run="r1").run == "r1"


def test_a_failed_command_tells_command_code_and_the_lines_that_matter() -> None:
    error = CommandError(
        host="n1", command="apt-get  install\nx", exit_code=100, stderr="reading\nE: no such package x\ndone\n"
    )
    assert error.message == "`apt-get install x` exited with 100: E: no such package x"
    assert (error.exit_code, error.host) == (100, "n1")
    assert CommandError(host="n1", command="x", exit_code=1, stdout="fatal: here").message.endswith("fatal: here")
    assert CommandError(host="n1", command="x", exit_code=1).message == "`x` exited with 1"
    assert CommandTimeout(host="n1", command="x", exit_code=124, message="too slow").message == "too slow"
    assert len(CommandError(host="n1", command="x" * 5000, exit_code=1).message) < 300


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("", []),
        ("\n \n", []),
        ("one\ntwo\nthree\nfour", ["two", "three", "four"]),
        ("starting\nERROR: disk full\ncleaning up\nbye", ["ERROR: disk full"]),
        ("fail 1\nfail 2\nfail 3\nfail 4", ["fail 2", "fail 3", "fail 4"]),
        ("Permission denied (publickey)", ["Permission denied (publickey)"]),
        ("flag provided but not defined: -x\nUsage:\n  one\n  two\n  three", ["flag provided but not defined: -x"]),
    ],
)
def test_the_telling_lines_of_an_output(output: str, lines: list[str]) -> None:
    assert telling_lines(output) == lines


def test_a_long_line_is_cut() -> None:
    (line,) = telling_lines("error " + "x" * 1000)
    assert len(line) == 300
    assert line.endswith("…")


def test_all_hosts_that_failed_come_in_one_error() -> None:
    error = InitializationError(
        [ConnectError("no route", host="n1", hint="check the address"), HostError("no sudo", host="n2")]
    )
    assert error.message.splitlines() == [
        "2 hosts could not be initialised:",
        "  n1: no route",
        "    → check the address",
        "  n2: no sudo",
    ]
    assert [one.host for one in error.errors] == ["n1", "n2"]
    assert InitializationError([HostError("x", host="n1")]).message.startswith("1 host could")
