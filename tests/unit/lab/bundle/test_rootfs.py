"""Files out of Debian's packages: with every library they open, links resolved inside, /usr merged."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.bundle.archives import File, Link
from kubexm.lab.bundle.elf import Linkage, linkage
from kubexm.lab.bundle.rootfs import MERGED, Sysroot, merged


def elf(needed: tuple[str, ...] = (), interpreter: str = "") -> bytes:
    """The smallest 64-bit file that names these libraries: headers, then strings, then the dynamic table."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    loader = interpreter.encode() + b"\0" if interpreter else b""
    count = 2 + bool(loader)
    at_strings = 64 + 56 * count
    at_loader = at_strings + len(strings)
    at_dynamic = at_loader + len(loader)
    offset, tags = 1, b""
    for name in needed:
        tags += struct.pack("<QQ", 1, offset)
        offset += len(name) + 1
    tags += struct.pack("<QQ", 5, 0x10000 + at_strings) + struct.pack("<QQ", 0, 0)
    total = at_dynamic + len(tags)

    def segment(kind: int, start: int, size: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, 4, start, 0x10000 + start, 0, size, size, 8)

    headers = segment(1, 0, total) + segment(2, at_dynamic, len(tags))
    headers += segment(3, at_loader, len(loader)) if loader else b""
    start = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    )
    return start + headers + strings + loader + tags


def sysroot(root: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Sysroot:
    for link in MERGED:
        (root / "usr" / link).mkdir(parents=True)
        (root / link).symlink_to(f"usr/{link}")
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o755 if "bin/" in path else 0o644)
    for path, target in (links or {}).items():
        (root / path).symlink_to(target)
    return Sysroot(root)


def test_linkage_is_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(elf(("libm.so.6", "libc.so.6"), "/lib64/ld-linux-x86-64.so.2"))
    assert linkage(tmp_path / "x") == Linkage(
        interpreter="/lib64/ld-linux-x86-64.so.2", needed=("libm.so.6", "libc.so.6")
    )


def test_linkage_agrees_with_the_systems_own_tool() -> None:
    if (readelf := shutil.which("readelf")) is None:
        pytest.skip("readelf is not installed")
    program = os.path.realpath("/bin/ls")
    found = linkage(Path(program))
    assert found is not None
    shown = subprocess.run([readelf, "-d", program], capture_output=True, text=True, check=True).stdout
    assert all(f"Shared library: [{name}]" in shown for name in found.needed)
    assert len(found.needed) == shown.count("Shared library:")


def test_scripts_and_short_files_are_not_linked(tmp_path: Path) -> None:
    for content in (b"#!/bin/sh\n", b"", b"\x7fEL"):
        (tmp_path / "x").write_bytes(content)
        assert linkage(tmp_path / "x") is None


def test_a_damaged_program_is_named(tmp_path: Path) -> None:
    whole = elf(("libc.so.6",))
    for length in range(6, len(whole)):
        (tmp_path / "x").write_bytes(whole[:length])
        with pytest.raises(LabError, match=r"/x is a damaged program"):
            linkage(tmp_path / "x")


def test_every_library_is_followed_and_each_link_kept(tmp_path: Path) -> None:
    root = sysroot(
        tmp_path / "root",
        {
            "usr/sbin/tool": elf(("liba.so.1",), "/lib64/ld.so"),
            "lib/x86_64-linux-gnu/liba.so.1.2": elf(("libm.so.6",)),
            "usr/lib/x86_64-linux-gnu/libm.so.6": elf(),
            "lib/x86_64-linux-gnu/ld-2.so": elf(),
            "usr/share/doc/tool": b"not wanted",
        },
        {"lib/x86_64-linux-gnu/liba.so.1": "liba.so.1.2", "lib64/ld.so": "/lib/x86_64-linux-gnu/ld-2.so"},
    )
    tree = root.pick(["sbin/tool"])
    library = "usr/lib/x86_64-linux-gnu"
    assert sorted(tree) == sorted(
        [
            "usr/sbin/tool",
            f"{library}/liba.so.1",
            f"{library}/liba.so.1.2",
            f"{library}/libm.so.6",
            "usr/lib64/ld.so",
            f"{library}/ld-2.so",
        ]
    )
    assert tree[f"{library}/liba.so.1"] == Link(target="liba.so.1.2")
    assert tree["usr/lib64/ld.so"] == Link(target="../lib/x86_64-linux-gnu/ld-2.so")
    assert tree["usr/sbin/tool"] == File(source=tmp_path / "root/usr/sbin/tool", mode=0o755)


def test_a_library_nobody_has_is_named_with_who_wants_it(tmp_path: Path) -> None:
    root = sysroot(tmp_path / "root", {"usr/bin/tool": elf(("libodd.so.1",))})
    with pytest.raises(LabError, match=r"no package has the library libodd\.so\.1, which usr/bin/tool opens"):
        root.pick(["bin/tool"])


def test_a_pattern_that_matches_nothing_is_a_mistake(tmp_path: Path) -> None:
    root = sysroot(tmp_path / "root", {"usr/lib/x/a.so": b"", "usr/lib/x/b.so": b"", "usr/lib/x/c.txt": b""})
    assert root.glob("lib/x/*.so") == ["usr/lib/x/a.so", "usr/lib/x/b.so"]
    for pattern in ("lib/x/*.none", "lib/y/*"):
        with pytest.raises(LabError, match="Debian's packages have no"):
            root.glob(pattern)


def test_merged() -> None:
    assert [merged(path) for path in ("bin/ip", "lib64/x", "usr/bin/ip", "etc/x", "library/x")] == [
        "usr/bin/ip",
        "usr/lib64/x",
        "usr/bin/ip",
        "etc/x",
        "library/x",
    ]
