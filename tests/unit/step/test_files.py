"""Files, directories and links."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any

import pytest

from kubexm.cache import Key
from kubexm.errors import AssetError
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret, SecretRef
from kubexm.step import (
    DirectoryPresent,
    FileAbsent,
    FilePresent,
    FileUploaded,
    LinkPresent,
    Step,
    clash,
    clash_in_cluster,
)
from tests.unit.step.bench import GROUP, OWNER, Bench


def present(bench: Bench, name: str, content: Any, **more: Any) -> FilePresent:
    return FilePresent(path=bench.path(name), content=content, owner=OWNER, group=GROUP, **more)


async def test_a_file_is_written_once(bench: Bench) -> None:
    step = present(bench, "etc/a.conf", "one\ntwo\n", mode=0o640)
    check = await bench.check(step)
    assert check.reason == "it is not there"
    assert check.diff == f"--- /dev/null\n+++ {step.path}\n@@ -0,0 +1,2 @@\n+one\n+two"
    await bench.reach(step)
    assert bench.local("etc/a.conf").read_text() == "one\ntwo\n"
    assert bench.local("etc/a.conf").stat().st_mode & 0o7777 == 0o640


async def test_a_precheck_is_one_read(bench: Bench) -> None:
    step = present(bench, "a", "x")
    await bench.run(step)
    bench.connector.commands.clear()
    assert (await bench.check(step)).satisfied
    assert (len(bench.connector.commands), bench.connector.reads) == (1, 1)
    bench.local("a").write_text("y")
    bench.connector.commands.clear()
    assert not (await bench.check(step)).satisfied
    assert bench.connector.reads == 1


async def test_what_differs_is_told_and_shown(bench: Bench) -> None:
    bench.local("a").write_text("one\nthree\n")
    bench.local("a").chmod(0o755)
    check = await bench.check(present(bench, "a", "one\ntwo\n"))
    assert check.reason == "its content differs; its mode is 0755 and should be 0644"
    assert "-three\n+two" in check.diff
    bench.local("b").mkdir()
    assert (await bench.check(present(bench, "b", ""))).reason == "it is a directory"
    step = FilePresent(path=bench.path("a"), content="one\nthree\n", mode=0o755, owner="nobody", group=GROUP)
    assert (await bench.check(step)).reason == f"it belongs to {OWNER}:{GROUP} and should to nobody:{GROUP}"


async def test_what_only_its_owner_may_read_is_not_shown(bench: Bench) -> None:
    bench.local("kubeconfig").write_text("token: swordfish\n")
    bench.local("kubeconfig").chmod(0o600)
    check = await bench.check(present(bench, "kubeconfig", "token: file\n", mode=0o600))
    assert "its content differs" in check.reason
    assert check.diff == ""
    assert b"swordfish" not in (await bench.connector.execute(bench.connector.commands[-1])).stdout


async def test_binary_content_has_no_diff(bench: Bench) -> None:
    step = present(bench, "bin", bytes(range(256)))
    assert (await bench.check(step)).diff == ""
    await bench.reach(step)
    assert bench.local("bin").read_bytes() == bytes(range(256))


async def test_a_secret_is_written_and_never_shown(bench: Bench) -> None:
    ref = bench.context.secrets.put("ca-key", Secret("-----KEY-----\nxyzzy\n"))
    step = present(bench, "pki/ca.key", ref, mode=0o600)
    bench.local("pki/ca.key").write_text("-----KEY-----\nplugh\n")
    bench.local("pki/ca.key").chmod(0o644)
    check = await bench.check(step)
    assert check.diff == ""
    assert "its content differs" in check.reason
    await bench.reach(step)
    assert bench.local("pki/ca.key").read_text() == "-----KEY-----\nxyzzy\n"
    assert all("xyzzy" not in command.script for command in bench.connector.commands)
    assert "xyzzy" not in str(encode(step))
    assert decode(encode(step), FilePresent) == step


async def test_a_secret_that_is_not_made_yet_is_no_error(bench: Bench) -> None:
    step = present(bench, "pki/ca.key", SecretRef("pki.ca.key"), mode=0o600)
    check = await bench.check(step)
    assert check.satisfied is False
    assert check.reason == "its content, the secret pki.ca.key, is not made yet"
    assert "secret:pki.ca.key" in step.reads()
    assert clash_in_cluster(step.reads(), frozenset({"secret:pki.*"})), "a secret is the same from every host"
    bench.context.secrets.put("pki.ca.key", Secret("xyzzy\n"))
    await bench.reach(step)


async def test_content_from_another_step(bench: Bench) -> None:
    key: Key[str] = Key("token")
    step = present(bench, "token", key)
    assert step.consumes() == (key,)
    assert "token, is not there yet" in (await bench.check(step)).reason
    bench.context.caches.publish("bench.steps.other", key, "t0ken", "n1")
    await bench.reach(step)
    assert bench.local("token").read_text() == "t0ken"
    assert decode(encode(step), FilePresent) == step


async def test_secret_content_from_another_step_is_not_shown(bench: Bench) -> None:
    key: Key[Secret] = Key("join", secret=True)
    bench.context.caches.publish("bench.steps.other", key, Secret("swordfish"), "n1")
    check = await bench.check(present(bench, "join", key))
    assert check.diff == ""


async def test_rollback_restores_what_was_there_before_this_run(bench: Bench) -> None:
    bench.local("a").write_text("theirs\n")
    bench.local("a").chmod(0o604)
    first = present(bench, "a", "ours\n")
    await bench.reach(first)
    bench.run_id = "run-2"
    second = present(bench, "a", "ours again\n", mode=0o600)
    await bench.reach(second)
    await bench.rollback(second)
    assert bench.local("a").read_text() == "ours\n"
    bench.run_id = "run-1"
    await bench.rollback(first)
    assert bench.local("a").read_text() == "theirs\n"
    assert bench.local("a").stat().st_mode & 0o777 == 0o604


async def test_rollback_of_a_new_file_removes_it_unless_somebody_changed_it(bench: Bench) -> None:
    step = present(bench, "a", "ours\n")
    await bench.reach(step)
    await bench.rollback(step)
    assert not bench.local("a").exists()
    await bench.reach(step)
    bench.local("a").write_text("edited by hand\n")
    await bench.rollback(step)
    assert bench.local("a").read_text() == "edited by hand\n"
    assert bench.warnings == [f"{bench.path('a')} was changed by somebody else since, and is left as it is"]


async def test_absent(bench: Bench) -> None:
    step = FileAbsent(path=bench.path("gone"))
    assert (await bench.check(step)).satisfied
    bench.local("gone").write_text("x")
    await bench.reach(step)
    await bench.rollback(step)
    assert bench.local("gone").read_text() == "x"


async def test_upload(bench: Bench) -> None:
    source = bench.root / "source"
    source.write_bytes(b"\0" * 70_000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    step = FileUploaded(
        source=str(source),
        path=bench.path("tool"),
        sha256=digest,
        size=70_000,
        mode=0o755,
        owner=OWNER,
        group=GROUP,
    )
    await bench.reach(step)
    assert bench.local("tool").read_bytes() == source.read_bytes()
    await bench.rollback(step)
    assert not bench.local("tool").exists()
    source.write_bytes(b"something else")
    with pytest.raises(AssetError, match="was planned"):
        await bench.run(step)
    source.unlink()
    with pytest.raises(AssetError, match="cannot be read: No such file"):
        await bench.run(step)


async def test_directory_and_link(bench: Bench) -> None:
    directory = DirectoryPresent(path=bench.path("var/lib/x"), mode=0o700, owner=OWNER, group=GROUP)
    await bench.reach(directory)
    assert bench.local("var/lib/x").stat().st_mode & 0o7777 == 0o700
    link = LinkPresent(path=bench.path("current"), target=PurePosixPath("var/lib/x"))
    await bench.reach(link)
    assert bench.local("current").readlink().as_posix() == "var/lib/x"
    await bench.rollback(link)
    await bench.rollback(directory)
    assert not bench.local("current").is_symlink()
    assert not (bench.root / "host" / "var").exists(), "and those that were made for it"


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("there", [True, False])
async def test_a_filled_directory_goes_with_a_rollback_only_if_it_is_the_runs_own(
    bench: Bench, own: bool, there: bool
) -> None:
    path = bench.local("var/lib/etcd")
    if there:
        path.mkdir(mode=0o755)
    step = DirectoryPresent(path=bench.path("var/lib/etcd"), mode=0o700, owner=OWNER, group=GROUP, own=own)
    await bench.reach(step)
    (path / "member").mkdir()
    (path / "member" / "db").write_text("data")
    await bench.rollback(step)
    assert path.exists() == (there or not own)
    if there:
        assert (path.stat().st_mode & 0o7777, (path / "member" / "db").read_text()) == (0o755, "data")


@pytest.mark.parametrize(
    "step",
    [
        FilePresent(path=PurePosixPath("/etc/a"), content="x"),
        FileAbsent(path=PurePosixPath("/etc/a")),
        FileUploaded(source="x", path=PurePosixPath("/etc/a"), sha256="0" * 64),
        DirectoryPresent(path=PurePosixPath("/etc/a")),
        LinkPresent(path=PurePosixPath("/etc/a"), target=PurePosixPath("b")),
    ],
    ids=lambda step: type(step).__name__,
)
def test_they_touch_their_path_and_nothing_else(step: Step) -> None:
    assert step.reads() == step.writes() == {"file:/etc/a"}
    assert not clash(step.writes(), frozenset({"file:/etc/b", "unit:*"}))
    assert "/etc/a" in step.describe()


def test_a_secret_itself_does_not_fit_into_a_plan() -> None:
    step = FilePresent(path=PurePosixPath("/etc/a"), content=SecretRef("name"))
    assert "name" in str(encode(step))
