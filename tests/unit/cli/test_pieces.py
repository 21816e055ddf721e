"""The small parts of the command line: options, answers of hosts, asking for secrets, tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubexm.cli.fleet import _Answers
from kubexm.cli.options import cluster_file, host_names, several
from kubexm.cli.output import Boxes, Drawn, Shown, Streamed, show_data, show_table
from kubexm.connector import CommandResult
from kubexm.errors import ConnectError, UsageError
from kubexm.plan.render import Collapse, PlanFormat
from kubexm.service.local_runs import chosen


def test_several() -> None:
    assert several(None, "--only") == ()
    assert several(["a,b", " c ", "w[1:3]"], "--only") == ("a", "b", "c", "w[1:3]")


@pytest.mark.parametrize("values", [[""], [" "], [","], ["n1", ""]])
def test_an_empty_value_does_not_select_everything(values: list[str]) -> None:
    with pytest.raises(UsageError, match="--skip is empty"):
        several(values, "--skip")
    with pytest.raises(UsageError, match="--limit is empty"):
        host_names(values)


def test_ranges_of_hosts_are_written_out() -> None:
    assert host_names(["w[08:10],edge", "n*", "n[13]"]) == ("w08", "w09", "w10", "edge", "n*", "n[13]")
    with pytest.raises(UsageError, match="runs backwards"):
        host_names(["w[3:1]"])


def test_the_usual_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cluster_file(Path("other.yaml")) == Path("other.yaml")
    with pytest.raises(UsageError, match="no cluster file"):
        cluster_file(None)
    Path("cluster.yaml").touch()
    assert cluster_file(None) == Path("cluster.yaml")


def answer(host: str, code: int = 0, out: bytes = b"", err: bytes = b"") -> CommandResult:
    return CommandResult(host=host, command="x", exit_code=code, stdout=out, stderr=err, started=1.0, ended=2.5)


def test_hosts_that_printed_the_same_are_shown_together(capsys: pytest.CaptureFixture[str]) -> None:
    answers = _Answers(Streamed.TEXT, verbose=False)
    for number in (10, 2, 1, 3):
        answers.take(answer(f"n{number}", out=b"same\n"))
    answers.take(answer("a", code=2, out=b"no newline", err=b"oh\n"))
    answers.take(ConnectError("gone", host="b", hint="look for it"))
    assert capsys.readouterr().out == "", "nothing is shown before all have answered"
    answers.close()
    shown = capsys.readouterr()
    assert shown.out == "── a: exit code 2\nno newline\n── n[1:3], n10 (4 hosts)\nsame\n"
    assert shown.err == "oh\nerror: b: gone\n  → look for it\n"
    assert answers.exit_code == 1


def test_verbose_shows_each_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    answers = _Answers(Streamed.TEXT, verbose=True)
    answers.take(answer("b", out=b"one\n"))
    assert capsys.readouterr().out == "── b\none\n"
    answers.close()
    assert capsys.readouterr().out == ""
    assert answers.exit_code == 0


def test_answers_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    answers = _Answers(Streamed.JSON, verbose=False)
    answers.take(answer("b", out=b"\xff\n"))
    answers.take(ConnectError("gone", host="a"))
    answers.close()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {
        "host": "b", "exit_code": 0, "stdout": "\ufffd\n", "stderr": "", "seconds": 1.5, "truncated": False,
    }  # fmt: skip
    assert lines[1]["error"] == "gone"
    assert answers.exit_code == 3


def test_no_terminal_no_question() -> None:
    code = "from kubexm.cli.terminal import ask_secret; ask_secret('the sudo password of n1')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, start_new_session=True, input="pw\n"
    )
    assert done.stdout == "", "nothing was asked"
    assert "there is no terminal to ask on" in done.stderr


def test_choices_for_plans_are_those_of_the_renderer() -> None:
    assert [each.value for each in Drawn] == [each.value for each in PlanFormat]
    assert [each.value for each in Boxes] == [each.value for each in Collapse]


def test_tables_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "what"), [("a", "1"), ("longer", "2")])
    assert capsys.readouterr().out == "NAME    WHAT\na       1\nlonger  2\n"
    show_data({"a": [1, "x: y"]}, Shown.YAML)
    assert capsys.readouterr().out == "a:\n- 1\n- 'x: y'\n"
    show_data({"a": "ü"}, Shown.JSON)
    assert capsys.readouterr().out == '{\n  "a": "ü"\n}\n'


@pytest.mark.parametrize("run", ["", " "])
def test_an_empty_name_is_not_the_latest_run(run: str) -> None:
    with pytest.raises(UsageError, match="name of the run is empty"):
        chosen(run, ["20260101-000000-aaaa"], "hint")
    assert chosen("last", ["20260101-000000-aaaa"], "hint") == "20260101-000000-aaaa"


def test_a_table_becomes_blocks_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [["n1", "Debian GNU/Linux 12 (bookworm)"], ["n2", "Debian GNU/Linux 12 (bookworm)"]]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table(("host", "operating system"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["HOST              n1", "OPERATING SYSTEM  Debian GNU/Linux 12 (bookworm)", ""]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table(("host", "operating system"), rows)
    assert capsys.readouterr().out.splitlines()[0] == "HOST  OPERATING SYSTEM"
