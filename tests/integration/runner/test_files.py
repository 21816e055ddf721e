"""Files, on a real file system."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.connector.base import Connector
from kubexm.errors import CommandError, StepError
from kubexm.runner import Facts, FileKind, Files

W = PurePosixPath("/scratch")


@pytest.fixture
def files(sandbox: Connector, facts: Facts) -> Files:
    return Files(sandbox, facts)


async def test_write_reads_back_with_mode_and_owner(files: Files) -> None:
    content = bytes(range(256)) * 3 + b"no newline at the end"
    assert await files.write(W / "a/b/c.bin", content, mode=0o640, owner="daemon", group="adm")
    assert await files.read(W / "a/b/c.bin") == content
    stat = await files.stat(W / "a/b/c.bin")
    assert stat is not None
    assert (stat.kind, stat.mode, stat.owner, stat.group, stat.size) == (FileKind.FILE, 0o640, "daemon", "adm", 789)
    above = await files.stat(W / "a/b")
    assert above is not None
    assert (above.kind, above.mode, above.owner) == (FileKind.DIRECTORY, 0o755, "root")


async def test_write_again_changes_nothing(files: Files, sandbox: Any) -> None:
    assert await files.write(W / "x", "one\n")
    before = sandbox.sh("stat -c '%i %Z' /scratch/x")
    assert not await files.write(W / "x", "one\n")
    assert sandbox.sh("stat -c '%i %Z' /scratch/x") == before
    assert await files.write(W / "x", "one\n", mode=0o600)
    assert sandbox.sh("ls -A /scratch").split() == ["x"]


async def test_write_survives_odd_names(files: Files) -> None:
    for name in (
        "sp ace",
        "quo'te",
        'do"uble',
        "dollar$HOME",
        "semi;colon",
        "-dash",
        "ünï",
        "per%cent",
        "back\\slash",
        "st*r",
    ):
        assert await files.write(W / name, name)
        assert await files.text(W / name) == name
        assert await files.exists(W / name)
        assert await files.remove(W / name)
        assert await files.read(W / name) is None


async def test_write_refuses_a_directory_and_says_so(files: Files, sandbox: Any) -> None:
    sandbox.sh("mkdir /scratch/dir")
    with pytest.raises(CommandError, match="/scratch/dir is a directory"):
        await files.write(W / "dir", "x")


async def test_write_to_a_full_disk_leaves_the_old_file_and_says_what_to_do(files: Files, sandbox: Any) -> None:
    sandbox.sh(
        "mkdir /scratch/small && mount -t tmpfs -o size=64k tmpfs /scratch/small && echo old >/scratch/small/file"
    )
    with pytest.raises(CommandError, match="No space left") as caught:
        await files.write(W / "small/file", b"x" * 200_000)
    assert "disk is full" in caught.value.hint
    assert await files.read(W / "small/file") == b"old\n"
    assert sandbox.sh("ls -A /scratch/small").split() == ["file"]


async def test_write_in_place_where_the_file_is_a_mount_point(files: Files, sandbox: Any) -> None:
    sandbox.sh("echo a >/scratch/one; echo b >/scratch/two; mount --bind /scratch/one /scratch/two")
    assert await files.write(W / "two", "c\n", mode=0o640, owner="daemon")
    assert await files.read(W / "one") == b"c\n"
    assert await files.matches(W / "two", content="c\n", mode=0o640, owner="daemon")


async def test_matches(files: Files, sandbox: Any) -> None:
    await files.write(W / "m", "hello\n", mode=0o750, owner="daemon")
    digest = hashlib.sha256(b"hello\n").hexdigest()
    assert await files.matches(W / "m", sha256=digest, mode=0o750, owner="daemon", group="root", size=6)
    assert await files.matches(W / "m", content="hello\n", owner="1", group="0")
    assert not await files.matches(W / "m", sha256=digest, mode=0o755)
    assert not await files.matches(W / "m", sha256=digest, owner="root")
    assert not await files.matches(W / "m", content="hello")
    assert not await files.matches(W / "absent", content="hello")
    sandbox.sh("ln -s /scratch/m /scratch/l")
    assert not await files.matches(W / "l", content="hello\n")


async def test_checksum(files: Files) -> None:
    await files.write(W / "sum", b"abc")
    assert await files.checksum(W / "sum") == hashlib.sha256(b"abc").hexdigest()
    assert await files.checksum(W / "nothing") is None


async def test_upload_and_download(files: Files, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"\x00\xff" * 400_000)
    assert await files.upload(source, W / "deep/down/target", mode=0o755)
    await files.download(W / "deep/down/target", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert await files.write(W / "large", source.read_bytes(), mode=0o600)
    assert await files.matches(W / "large", content=source.read_bytes(), mode=0o600)


async def test_link(files: Files) -> None:
    await files.write(W / "target", "x")
    assert await files.link(W / "name", "target")
    assert await files.links_to(W / "name", "target")
    assert not await files.link(W / "name", "target")
    assert await files.link(W / "name", "/elsewhere")
    assert await files.links_to(W / "name", "/elsewhere")
    stat = await files.stat(W / "name")
    assert stat is not None
    assert (stat.kind, stat.target) == (FileKind.LINK, "/elsewhere")
    assert await files.exists(W / "name")
    assert await files.remove(W / "name")
    assert not await files.remove(W / "name")


async def test_lines(files: Files) -> None:
    await files.write(W / "conf", "a=1\nb=2\n", mode=0o600)
    assert await files.line(W / "conf", "b=3", match=r"^b=")
    assert await files.has_line(W / "conf", "b=3", match=r"^b=")
    assert not await files.line(W / "conf", "b=3", match=r"^b=")
    assert await files.line(W / "conf", "c=4")
    assert await files.line(W / "conf", "a=1", present=False)
    assert await files.read(W / "conf") == b"b=3\nc=4\n"
    stat = await files.stat(W / "conf")
    assert stat is not None
    assert stat.mode == 0o600
    assert await files.line(W / "new", "first")
    assert await files.read(W / "new") == b"first\n"


async def test_an_edit_goes_through_a_link(files: Files, sandbox: Any) -> None:
    sandbox.sh("echo a >/scratch/real; ln -s real /scratch/alias")
    assert await files.line(W / "alias", "b")
    assert await files.links_to(W / "alias", "real")
    assert await files.read(W / "real") == b"a\nb\n"


async def test_an_edit_does_not_lose_what_others_write(files: Files, sandbox: Any) -> None:
    await files.write(W / "shared", "a\n")
    rounds: list[str] = []

    def change(text: str) -> str:
        if not rounds:
            sandbox.sh("echo theirs >>/scratch/shared")
        rounds.append(text)
        return text + "ours\n"

    assert await files.edit(W / "shared", change)
    assert await files.read(W / "shared") == b"a\ntheirs\nours\n"
    assert len(rounds) == 2


async def test_an_edit_gives_up_on_a_file_that_never_rests(files: Files, sandbox: Any) -> None:
    await files.write(W / "busy", "a\n")

    def change(text: str) -> str:
        sandbox.sh("echo theirs >>/scratch/busy")
        return text + "ours\n"

    with pytest.raises(StepError, match="changed by somebody else"):
        await files.edit(W / "busy", change)


async def test_paths_that_are_not_plain_are_refused(files: Files) -> None:
    for path in ("relative", "/a/../b", "/new\nline"):
        with pytest.raises(ValueError, match="plain absolute"):
            await files.read(path)
