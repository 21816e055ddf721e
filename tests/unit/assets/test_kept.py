"""Forms of a bundle's content that are made once: packed with zstd, found again, made anew when they are lost."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest
import zstandard

from kubexm.assets.kept import kept_packed, packs
from kubexm.errors import AssetError

PROGRAM = b"a program, much of it the same; " * 100_000


def file_of(path: Path, content: bytes) -> tuple[Path, str]:
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


def unpacked(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def test_a_program_is_packed_and_an_archive_packed_again(tmp_path: Path) -> None:
    packed, sha256 = kept_packed(*file_of(tmp_path / "kubelet", PROGRAM), tmp_path / "cache")
    assert packed.suffix == ".zst"
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == sha256
    assert unpacked(packed) == PROGRAM
    assert packed.stat().st_size < len(PROGRAM) / 4
    two = gzip.compress(PROGRAM) + gzip.compress(b"and more")  # gzip files may be put one after the other
    packed, _ = kept_packed(*file_of(tmp_path / "etcd.tar.gz", two), tmp_path / "cache")
    assert packed.name.endswith(".tar.zst"), "its name tells how to unpack it"
    assert unpacked(packed) == PROGRAM + b"and more"


def test_what_was_made_is_used_again_until_it_is_lost(tmp_path: Path) -> None:
    source, sha256 = file_of(tmp_path / "kubelet", PROGRAM)
    first = kept_packed(source, sha256, tmp_path / "cache")
    source.rename(tmp_path / "away")
    assert kept_packed(source, sha256, tmp_path / "cache") == first, "the source is not even read"
    (tmp_path / "away").rename(source)
    whole = first[0].read_bytes()
    first[0].write_bytes(whole[:-1])
    assert kept_packed(source, sha256, tmp_path / "cache")[0].read_bytes() == whole, "one that is cut off is made anew"


@pytest.mark.parametrize("name", ["kubelet", "etcd.tgz"])
def test_a_damaged_source_is_refused_and_nothing_kept(tmp_path: Path, name: str) -> None:
    content = PROGRAM if name == "kubelet" else gzip.compress(PROGRAM)
    source, sha256 = file_of(tmp_path / name, content)
    source.write_bytes(content[:500] + b"?" + content[501:])
    with pytest.raises(AssetError, match="is damaged") as caught:
        kept_packed(source, sha256, tmp_path / "cache")
    assert "bundle verify" in caught.value.hint
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(AssetError, match="cannot be read"):
        kept_packed(tmp_path / "none", sha256, tmp_path / "cache")


def test_those_not_used_for_long_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.assets.kept._PACKED", 2)
    made = []
    for number in range(3):
        packed, _ = kept_packed(*file_of(tmp_path / f"p{number}", PROGRAM + bytes([number])), tmp_path / "cache")
        os.utime(packed, (number, number))
        made.append(packed)
    assert [path.exists() for path in made] == [False, True, True]


def test_small_and_well_packed_files_go_as_they_are() -> None:
    assert packs("bin/kubelet", 80_000_000)
    assert packs("etcd.tar.gz", 20_000_000)
    assert not packs("bin/script", 1000)
    assert not packs("x.tar.zst", 20_000_000)
    assert not packs("x.tar.xz", 20_000_000)
