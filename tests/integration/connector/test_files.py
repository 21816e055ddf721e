"""Files: whole or not at all, with mode and owner, over every way to a host."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePosixPath

import pytest

from kubexm.connector import Command, ConnectionPool, Upload
from kubexm.errors import FencedError, TransferError

from ..conftest import MakeServer
from .conftest import Way

SMALL = bytes(range(256)) * 10
LARGE = os.urandom(3_000_000)


@pytest.fixture(params=["small", "large", "large-file"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> bytes | Path:
    if request.param == "small":
        return SMALL
    if request.param == "large":
        return LARGE
    path = tmp_path / "source"
    path.write_bytes(LARGE)
    return path


def content(source: bytes | Path) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


async def test_upload_with_mode_and_owner_and_not_twice(way: Way, source: bytes | Path) -> None:
    target = way.directory / "it's a file"
    upload = Upload(source=source, path=target, mode=0o640, owner="daemon", group="adm")
    local = Path(target)
    assert await way.connector.upload(upload)
    assert local.read_bytes() == content(source)
    assert (stat.S_IMODE(local.stat().st_mode), local.owner(), local.group()) == (0o640, "daemon", "adm")
    inode = local.stat().st_ino
    assert not await way.connector.upload(upload)
    assert local.stat().st_ino == inode

    local.chmod(0o644)
    assert await way.connector.upload(upload)
    assert stat.S_IMODE(local.stat().st_mode) == 0o640
    os.chown(local, 0, 0)
    assert await way.connector.upload(upload)
    assert local.owner() == "daemon"
    local.write_bytes(content(source)[:-1] + b"?")
    assert await way.connector.upload(upload)
    assert local.read_bytes() == content(source)
    assert sorted(path.name for path in Path(way.directory).iterdir()) == ["it's a file"]


async def test_numeric_owner_and_empty_file(way: Way) -> None:
    target = way.directory / "empty"
    upload = Upload(source=b"", path=target, mode=0o600, owner="1", group="1")
    assert await way.connector.upload(upload)
    assert not await way.connector.upload(upload)
    assert Path(target).stat().st_uid == 1


async def test_a_link_is_replaced_not_followed(way: Way) -> None:
    elsewhere, target = Path(way.directory) / "elsewhere", way.directory / "link"
    elsewhere.write_text("mine")
    Path(target).symlink_to(elsewhere)
    assert await way.connector.upload(Upload(source=b"new", path=target))
    assert elsewhere.read_text() == "mine"
    assert Path(target).read_bytes() == b"new"
    assert not Path(target).is_symlink()


async def test_a_directory_in_the_way(way: Way, source: bytes | Path) -> None:
    target = way.directory / "dir"
    Path(target).mkdir()
    with pytest.raises(TransferError, match="directory"):
        await way.connector.upload(Upload(source=source, path=target))
    assert [path.name for path in Path(way.directory).iterdir()] == ["dir"]


async def test_no_directory_for_it(way: Way, source: bytes | Path) -> None:
    with pytest.raises(TransferError, match="No such file or directory") as caught:
        await way.connector.upload(Upload(source=source, path=way.directory / "none" / "file"))
    assert "none must exist" in caught.value.hint


async def test_no_such_owner_leaves_the_old_file(way: Way, source: bytes | Path) -> None:
    target = way.directory / "file"
    Path(target).write_text("old")
    with pytest.raises(TransferError, match="invalid user"):
        await way.connector.upload(Upload(source=source, path=target, owner="nobody-like-this"))
    assert Path(target).read_text() == "old"
    assert [path.name for path in Path(way.directory).iterdir()] == ["file"]


async def test_a_wrong_digest_is_found(way: Way, source: bytes | Path) -> None:
    wrong = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(TransferError, match="sha256"):
        await way.connector.upload(Upload(source=source, path=way.directory / "file", sha256=wrong))
    assert list(Path(way.directory).iterdir()) == []


async def test_what_its_packing_proves_is_summed_only_if_it_came_in_pieces(way: Way) -> None:
    target = way.directory / "packed"
    digest = hashlib.sha256(LARGE).hexdigest()
    part = Path(way.directory) / f".kubexm-packed-{digest[:16]}.part"
    part.write_bytes(b"?" * 1_000_000)
    upload = Upload(source=LARGE, path=target, sha256=digest, proven=True)
    assert await way.connector.upload(upload)
    assert Path(target).read_bytes() == LARGE, "what was there of it was another's"
    other = Upload(source=LARGE, path=way.directory / "unlike its sum", sha256="0" * 64, proven=True)
    assert await way.connector.upload(other), "whoever unpacks it will tell"


async def test_no_such_source(way: Way, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="cannot be read"):
        await way.connector.upload(Upload(source=tmp_path / "none", path=way.directory / "file"))


async def test_the_fence_holds_for_files_too(way: Way, source: bytes | Path) -> None:
    lease = Path(way.directory) / "lease"
    lease.write_text("9 somebody\n")
    target = way.directory / "file"
    way.connector.fence(PurePosixPath(lease), 8)
    with pytest.raises(FencedError, match="newer run"):
        await way.connector.upload(Upload(source=source, path=target))
    assert [path.name for path in Path(way.directory).iterdir()] == ["lease"]
    lease.write_text("8 me\n")
    assert await way.connector.upload(Upload(source=source, path=target))
    lease.write_text("9 somebody\n")
    Path(target).chmod(0o600)
    with pytest.raises(FencedError):
        await way.connector.upload(Upload(source=source, path=target))
    assert stat.S_IMODE(Path(target).stat().st_mode) == 0o600


async def test_as_the_login_user(way: Way, source: bytes | Path) -> None:
    user = "ops" if way.connector.host == "ops" else "root"
    directory = await way.connector.execute(Command(script="mktemp -d -p ~", sudo=False, changes=True))
    path = PurePosixPath(directory.check().text) / "file"
    assert await way.connector.upload(Upload(source=source, path=path, mode=0o600, sudo=False))
    assert not await way.connector.upload(Upload(source=source, path=path, mode=0o600, sudo=False))
    result = await way.connector.execute(Command(script=f"stat -c '%U %a' {path}; rm -r {path.parent}", sudo=False))
    assert result.text == f"{user} 600"


async def test_download(way: Way, source: bytes | Path, tmp_path: Path) -> None:
    there = Path(way.directory) / "file"
    there.write_bytes(content(source))
    there.chmod(0o600)
    target = tmp_path / "down"
    target.write_text("older")
    await way.connector.download(PurePosixPath(there), target)
    assert target.read_bytes() == content(source)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


async def test_download_of_what_is_not_there(way: Way, tmp_path: Path) -> None:
    target = tmp_path / "down"
    for name in ("none", "."):
        with pytest.raises(TransferError, match="no such file"):
            await way.connector.download(way.directory / name, target)
    with pytest.raises(TransferError, match="cannot be written"):
        await way.connector.download(way.directory / "none", tmp_path / "none" / "down")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("user", ["root", "ops"])
async def test_a_full_disk(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd(mounts=("mkdir /run/small", "mount -t tmpfs -o size=1m,mode=755 small /run/small"))
    connector = pool.connector(user, server.settings(user))
    target = PurePosixPath("/run/small/file")
    assert await connector.upload(Upload(source=b"old", path=target))
    with pytest.raises(TransferError, match="No space left on device") as caught:
        await connector.upload(Upload(source=LARGE, path=target))
    assert "make room" in caught.value.hint
    listed = await connector.execute(Command(script="ls -A /run/small; cat /run/small/file"))
    assert listed.text == "file\nold"
    assert await connector.upload(Upload(source=LARGE[:500_000], path=target))


@pytest.mark.parametrize("user", ["root", "ops"])
async def test_no_room_for_receipts(make_sshd: MakeServer, pool: ConnectionPool, user: str) -> None:
    server = make_sshd(mounts=("mkdir -m 700 /run/kubexm", "mount -t tmpfs -o size=64k,mode=700 small /run/kubexm"))
    connector = pool.connector(user, server.settings(user))
    await connector.execute(Command(script=":"))
    await connector.execute(Command(script="head -c 100000 /dev/zero >/run/kubexm/fill"))
    result = await connector.execute(Command(script="echo readable"))
    assert result.text == "readable"
