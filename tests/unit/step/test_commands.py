"""Commands as steps, and steps of which only the reading half is wanted."""

from __future__ import annotations

import pytest

from kubexm.errors import CommandError, StepError
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret
from kubexm.step import EVERYTHING, NOTHING, CommandRun, OnlyRead, resources
from tests.unit.step.bench import Bench


async def test_a_plain_command_runs_each_time(bench: Bench) -> None:
    out = bench.local("out")
    step = CommandRun(command=f"echo x >>{out}")
    assert (await bench.check(step)).satisfied is None
    await bench.run(step)
    await bench.run(step)
    assert out.read_text() == "x\nx\n"
    assert step.commands == 1
    assert step.writes() == step.reads() == EVERYTHING


async def test_words_are_quoted(bench: Bench) -> None:
    bench.local("x").write_text("")
    await bench.run(CommandRun(command=("touch", str(bench.path("a b; touch c")))))
    assert bench.local("a b; touch c").exists()
    assert not bench.local("c").exists()


async def test_creates(bench: Bench) -> None:
    bench.local("x").write_text("")
    step = CommandRun(command=("touch", str(bench.path("made"))), creates=bench.path("made"))
    await bench.reach(step)
    assert step.reads() == {f"file:{bench.path('made')}"}


async def test_unless(bench: Bench) -> None:
    file = bench.local("flag")
    step = CommandRun(command=f"echo on >{file}", unless=f"grep -q on {file}")
    await bench.reach(step)
    assert (await bench.check(CommandRun(command="x", creates=bench.path("none"), unless="true"))).satisfied is False


async def test_a_failure_has_the_telling_lines(bench: Bench) -> None:
    with pytest.raises(CommandError, match="exited with 3: it is broken") as caught:
        await bench.run(CommandRun(command="echo it is broken >&2; exit 3"))
    assert caught.value.exit_code == 3


async def test_secrets_go_by_stdin_and_environment_only(bench: Bench) -> None:
    ref = bench.context.secrets.put("token", Secret("swordfish"))
    out = bench.local("out")
    step = CommandRun(command=f'{{ echo "$TOKEN"; cat; }} >{out}', env={"TOKEN": ref}, stdin=ref, name="log in")
    await bench.run(step)
    assert out.read_text() == "swordfish\nswordfish"
    assert all("swordfish" not in command.script + command.display for command in bench.connector.commands)
    assert "swordfish" not in str(encode(step))
    assert decode(encode(step), CommandRun) == step
    assert step.describe() == "log in"


def test_what_it_touches_can_be_said() -> None:
    step = CommandRun(command="true", touches=resources("file:/etc/x"))
    assert step.writes() == {"file:/etc/x"}
    assert decode(encode(step), CommandRun) == step


async def test_what_is_only_read_is_taken_as_it_is_and_never_brought_about(bench: Bench) -> None:
    flag = bench.local("flag")
    other = CommandRun(command=f"touch {flag}", creates=bench.path("flag"), name="flag")
    step = OnlyRead(step=other, why="left out by --skip", needed_by="etcd.form.founders")
    with pytest.raises(StepError, match=r"needs it, and it is left out by --skip") as caught:
        await bench.check(step)
    assert caught.value.hint == "run it as well, or leave etcd.form.founders out too"
    assert not flag.exists()
    flag.touch()
    assert (await bench.check(step)).satisfied
    assert (step.reads(), step.writes()) == (other.reads(), NOTHING)
    assert decode(encode(step), OnlyRead) == step
