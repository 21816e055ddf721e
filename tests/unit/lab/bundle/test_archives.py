"""Archives: the same tree is the same bytes, whatever its files looked like on disk."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

from kubexm.lab.bundle.archives import NET_BIND_SERVICE, Directory, File, Link, Tree, write_tar, write_tar_gz


def packed(tree: Tree) -> bytes:
    out = io.BytesIO()
    write_tar(tree, out)
    return out.getvalue()


def test_order_owner_and_time_do_not_matter(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for number, path in enumerate((one, other)):
        path.write_bytes(b"content")
        path.chmod(0o600 + number)
        os.utime(path, (number * 1000, number * 1000))
    first: Tree = {"b/x": File(source=one), "a": Directory(mode=0o700), "b/link": Link(target="x")}
    second: Tree = {"b/link": Link(target="x"), "a": Directory(mode=0o700), "b/x": File(source=other)}
    assert packed(first) == packed(second)


def test_what_is_written() -> None:
    tree: Tree = {
        "usr/bin/tool": File(source=b"tool", capability=NET_BIND_SERVICE),
        "usr/bin-extra": File(source=b"", mode=0o644),
        "bin": Link(target="usr/bin"),
        "tmp": Directory(mode=0o1777),
    }
    with tarfile.open(fileobj=io.BytesIO(packed(tree))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["bin", "tmp", "usr", "usr/bin", "usr/bin/tool", "usr/bin-extra"]
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "root", 0)}
    modes = {member.name: member.mode for member in members}
    assert (modes["tmp"], modes["usr"], modes["usr/bin/tool"], modes["usr/bin-extra"]) == (0o1777, 0o755, 0o755, 0o644)
    (tool,) = [member for member in members if member.name == "usr/bin/tool"]
    assert tool.pax_headers["SCHILY.xattr.security.capability"].encode() == NET_BIND_SERVICE
    assert members[0].issym()
    assert members[0].linkname == "usr/bin"


def test_a_compressed_archive_has_no_time_and_no_name_in_it(tmp_path: Path) -> None:
    tree: Tree = {"etcd-v1/etcd": File(source=b"x" * 100_000)}
    for name in ("one.tar.gz", "other.tar.gz"):
        write_tar_gz(tree, tmp_path / name)
    one, other = ((tmp_path / name).read_bytes() for name in ("one.tar.gz", "other.tar.gz"))
    assert hashlib.sha256(one).digest() == hashlib.sha256(other).digest()
    assert gzip.decompress(one) == packed(tree)
    assert one[3:8] == bytes(5), "no flags, no time"
