"""Programs of a build: their lines, their log, their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.lab.bundle.commands import CommandFailed, Commands


def test_stdout_is_returned_and_stderr_told_line_by_line(tmp_path: Path) -> None:
    lines: list[str] = []
    commands = Commands(log=tmp_path / "logs" / "x.log", environment={"GREETING": "hello"})
    script = "echo $GREETING $MORE; echo one >&2; echo two >&2; pwd"
    out = commands.run(["sh", "-c", script], cwd=tmp_path, env={"MORE": "there"}, on_line=lines.append)
    assert out.splitlines() == ["hello there", str(tmp_path)]
    assert lines == ["one", "two"]
    log = (tmp_path / "logs" / "x.log").read_text()
    assert "one\ntwo\n" in log
    assert log.endswith("# exit code 0\n")


def test_a_failure_shows_the_telling_lines_and_where_the_rest_is(tmp_path: Path) -> None:
    commands = Commands(log=tmp_path / "x.log")
    with pytest.raises(CommandFailed) as caught:
        commands.run(["sh", "-c", "echo fine >&2; echo 'error: broken thing' >&2; exit 7"])
    assert caught.value.exit_code == 7
    assert caught.value.message == "sh exited with 7:\n  error: broken thing"
    assert str(tmp_path / "x.log") in caught.value.hint


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(CommandFailed, match="signal 9"):
        Commands().run(["sleep", "600"], timeout=0.2)


def test_much_output_on_both_streams_is_no_deadlock() -> None:
    out = Commands().run(["sh", "-c", "seq 200000; seq 200000 >&2"])
    assert out.count("\n") == 200_000


def test_input_that_looks_like_a_shell_stays_an_argument() -> None:
    assert Commands().run(["printf", "%s", "$(id); `id`"]) == "$(id); `id`"
