"""Several settings files at once: each host its own, one round trip, a diff of what changes, nothing secret shown."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret, SecretRef
from tests.unit.step.bench import GROUP, OWNER, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.make(tmp_path)


def files(bench: Bench, text: str = "plain\n") -> FilesPresent:
    own = per_host_files(bench.path("own"), {"n1": "of n1\n", "n2": "of n2\n"})
    return FilesPresent(
        files=(
            HostFile(path=bench.path("plain"), content=text),
            HostFile(path=bench.path("secret"), content=SecretRef("word"), mode=0o600),
            *own,
        ),
        owner=OWNER,
        group=GROUP,
    )


async def test_each_host_gets_its_own_in_one_command(bench: Bench) -> None:
    assert (await bench.check(files(bench))).reason == "the secret word is not made yet"
    bench.context.secrets.put("word", Secret("xyzzy\n"))
    await bench.reach(files(bench))
    assert bench.local("own").read_text() == "of n1\n"
    assert bench.local("secret").read_text() == "xyzzy\n"
    assert bench.local("secret").stat().st_mode & 0o777 == 0o600
    assert sum(command.changes for command in bench.connector.commands) == 1
    assert all("xyzzy" not in command.script for command in bench.connector.commands)
    assert (await bench.check(files(bench))).satisfied


async def test_a_change_is_shown_unless_it_is_secret_and_only_that_is_written(bench: Bench) -> None:
    bench.context.secrets.put("word", Secret("xyzzy\n"))
    await bench.reach(files(bench))
    before = bench.local("own").stat().st_ino
    bench.context.secrets.put("word", Secret("plugh\n"))
    check = await bench.check(files(bench, "other\n"))
    assert "-plain\n+other" in check.diff
    assert "plugh" not in check.diff
    assert "xyzzy" not in check.diff
    assert str(bench.path("secret")) in check.reason
    await bench.reach(files(bench, "other\n"))
    assert bench.local("own").stat().st_ino == before


async def test_rollback_puts_back_what_was_there(bench: Bench) -> None:
    bench.context.secrets.put("word", Secret("xyzzy\n"))
    bench.local("plain").write_text("theirs\n")
    await bench.reach(files(bench))
    await bench.rollback(files(bench))
    assert bench.local("plain").read_text() == "theirs\n"
    assert not bench.local("secret").exists()


def test_hosts_with_the_same_content_share_it() -> None:
    path = PurePosixPath("/x")
    found = per_host_files(path, {"a": "1", "b": "2", "c": "1"})
    assert found == (
        HostFile(path=path, content="1", hosts=("a", "c")),
        HostFile(path=path, content="2", hosts=("b",)),
    )


def test_it_is_plain_data_and_says_what_it_touches(bench: Bench) -> None:
    step = files(bench)
    assert decode(encode(step), FilesPresent) == step
    assert step.writes() == {f"file:{bench.path(name)}" for name in ("plain", "secret", "own")}
    assert step.reads() == step.writes() | {"secret:word"}
    assert step.describe() == f"files {bench.path('plain')}, {bench.path('secret')} and 1 more"
