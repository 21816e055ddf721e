"""Lines and blocks in files that others write too."""

from __future__ import annotations

import pytest

from kubexm.errors import StepError
from kubexm.plan.codec import decode, encode
from kubexm.step import BlockInFile, HostsEntries, LineInFile
from tests.unit.step.bench import Bench


async def test_a_line_replaces_what_it_stands_for(bench: Bench) -> None:
    bench.local("login.defs").write_text("# defaults\nUMASK 022\nOTHER 1\n")
    step = LineInFile(path=bench.path("login.defs"), line="UMASK 027", match=r"^UMASK\b")
    check = await bench.check(step)
    assert check.reason == "the line is missing"
    assert "-UMASK 022\n+UMASK 027" in check.diff
    await bench.reach(step)
    assert bench.local("login.defs").read_text() == "# defaults\nUMASK 027\nOTHER 1\n"
    await bench.rollback(step)
    assert bench.local("login.defs").read_text() == "# defaults\nUMASK 022\nOTHER 1\n"


async def test_a_line_that_must_not_be_there(bench: Bench) -> None:
    bench.local("fstab").write_text("a\nb\na\n")
    await bench.reach(LineInFile(path=bench.path("fstab"), line="a", present=False))
    assert bench.local("fstab").read_text() == "b\n"


def test_a_line_is_one_line(bench: Bench) -> None:
    with pytest.raises(ValueError, match="no line breaks"):
        LineInFile(path=bench.path("x"), line="a\nb")


async def test_a_block_leaves_the_rest_alone(bench: Bench) -> None:
    bench.local("conf").write_text("theirs\n")
    step = BlockInFile(path=bench.path("conf"), name="limits", body="one\ntwo\n")
    await bench.reach(step)
    text = bench.local("conf").read_text()
    assert text.startswith("theirs\n")
    assert "\none\ntwo\n" in text
    bench.local("conf").write_text(text + "theirs, too\n")
    await bench.reach(BlockInFile(path=bench.path("conf"), name="limits", body="three\n"))
    assert "one" not in bench.local("conf").read_text()
    await bench.reach(BlockInFile(path=bench.path("conf"), name="limits", present=False))
    assert bench.local("conf").read_text() == "theirs\ntheirs, too\n"


async def test_a_damaged_block_is_an_error_that_says_what_to_do(bench: Bench) -> None:
    step = BlockInFile(path=bench.path("conf"), name="limits", body="one\n")
    await bench.run(step)
    text = bench.local("conf").read_text()
    bench.local("conf").write_text("\n".join(text.splitlines()[:-1]) + "\n")
    with pytest.raises(StepError, match="damaged") as caught:
        await bench.check(step)
    assert "by hand" in caught.value.hint


async def test_hosts_entries(bench: Bench) -> None:
    bench.local("hosts").write_text("127.0.0.1 localhost\n")
    entries = (("10.0.0.1", ("n1", "n1.cluster.local")), ("10.0.0.2", ("n2",)))
    step = HostsEntries(entries=entries, path=bench.path("hosts"))
    await bench.reach(step)
    assert "10.0.0.1 n1 n1.cluster.local\n10.0.0.2 n2\n" in bench.local("hosts").read_text()
    assert decode(encode(step), HostsEntries) == step
    await bench.reach(HostsEntries(entries=(), path=bench.path("hosts")))
    assert bench.local("hosts").read_text() == "127.0.0.1 localhost\n"


def test_the_default_is_the_file_of_the_host() -> None:
    step = HostsEntries(entries=())
    assert step.writes() == {"file:/etc/hosts"}
