"""Verifying: each fault is found and named, all of them at once; and nothing wrong ever passes or raises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kubexm.assets import Bundle, Kind, Manifest, keygen, pack, verify
from kubexm.assets import archive as archive_module
from kubexm.assets.archive import index_frame, meta_frame
from kubexm.assets.signing import PrivateKey
from kubexm.assets.tarball import END, padding, tar_header
from kubexm.errors import AssetError
from tests.unit.assets.samples import sample_bundle


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one bundle, `b`, and the same as `b.tar.zst`; nobody may change them."""
    work = tmp_path_factory.mktemp("bundles")
    sample_bundle(work / "b")
    pack(work / "b", work / "b.tar.zst")
    return work


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """A bundle directory of one's own."""
    return Path(shutil.copytree(made / "b", tmp_path / "b"))


@pytest.fixture
def packed(made: Path, tmp_path: Path) -> Path:
    """A packed bundle of one's own."""
    return Path(shutil.copy(made / "b.tar.zst", tmp_path / "b.tar.zst"))


def test_a_whole_bundle_passes(directory: Path, packed: Path) -> None:
    for path in (directory, packed):
        report = verify(path, arch="amd64")
        assert report.ok, report.findings
        assert report.manifest is not None
        assert not report.signed_by


def test_each_flipped_byte_of_each_file_is_named(directory: Path) -> None:
    manifest = Manifest.from_json((directory / "manifest.json").read_bytes())
    for entry in manifest.entries():
        path = directory / entry.path
        whole = path.read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            (finding,) = verify(directory).findings
            assert (finding.kind, finding.path) == (Kind.DAMAGED, entry.path)
            assert entry.sha256 in finding.detail
        path.write_bytes(whole)
    assert verify(directory).ok


def test_all_faults_are_named_at_once(directory: Path) -> None:
    manifest = Manifest.from_json((directory / "manifest.json").read_bytes())
    flipped, gone, cut, *_ = sorted(entry.path for entry in manifest.entries())
    data = (directory / flipped).read_bytes()
    (directory / flipped).write_bytes(b"?" + data[1:])
    (directory / gone).unlink()
    (directory / cut).write_bytes((directory / cut).read_bytes()[:-1])
    (directory / "files/stray").write_bytes(b"")
    (directory / "files/link").symlink_to("/etc/passwd")
    os.mkfifo(directory / "files/pipe")
    found = {finding.path: finding.kind for finding in verify(directory, arch="arm64").findings}
    assert found == {
        flipped: Kind.DAMAGED,
        gone: Kind.MISSING,
        cut: Kind.DAMAGED,
        "files/stray": Kind.EXTRA,
        "files/link": Kind.REFUSED,
        "files/pipe": Kind.REFUSED,
        "manifest.json": Kind.ARCHITECTURE,
    }


def test_a_link_in_place_of_a_file_is_refused(directory: Path, tmp_path: Path) -> None:
    manifest = Manifest.from_json((directory / "manifest.json").read_bytes())
    victim = directory / manifest.files[0].path
    shutil.move(victim, tmp_path / "elsewhere")
    victim.symlink_to(tmp_path / "elsewhere")  # the content is right, and yet it may change under our hands
    (finding,) = verify(directory).findings
    assert finding.kind is Kind.REFUSED
    assert "symbolic link" in finding.detail


Edit = Callable[[dict[str, object]], None]


def _roles(document: dict[str, object]) -> None:
    document["files"][0]["roles"] = ["worker"]  # type: ignore[index]


def _path(document: dict[str, object]) -> None:
    document["files"][0]["path"] = "files/../../etc/passwd"  # type: ignore[index]


def _unknown(document: dict[str, object]) -> None:
    document["sneaky"] = True


def _size(document: dict[str, object]) -> None:
    document["files"][0]["size"] = -1  # type: ignore[index]


def _missing(document: dict[str, object]) -> None:
    del document["architecture"]


def _format(document: dict[str, object]) -> None:
    document["formatVersion"] = 99


@pytest.mark.parametrize(
    ("edit", "telling"),
    [
        (_roles, "its sha256 is"),
        (_path, "'files/../../etc/passwd' cannot be in a bundle"),
        (_unknown, "sneaky: unknown key"),
        (_size, "a size cannot be negative"),
        (_missing, "architecture: is missing"),
        (_format, "format version 99"),
    ],
)
def test_an_edited_manifest_is_found(directory: Path, tmp_path: Path, edit: Edit, telling: str) -> None:
    path = directory / "manifest.json"
    document = json.loads(path.read_bytes())
    edit(document)
    data = (json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    path.write_bytes(data)
    report = verify(directory)
    assert any(telling in str(finding) for finding in report.findings), report.findings
    assert {finding.path for finding in report.findings} == {"manifest.json"}
    with pytest.raises(AssetError):
        Bundle.open(directory)
    crafted = repacked(tmp_path, directory, members=None)
    assert any(telling in str(finding) for finding in verify(crafted).findings)


def test_several_problems_of_a_manifest_are_listed_together(directory: Path) -> None:
    path = directory / "manifest.json"
    document = json.loads(path.read_bytes())
    _path(document)
    _unknown(document)
    document["files"][1]["sha256"] = "nope"
    path.write_text(json.dumps(document))
    text = "\n".join(str(finding) for finding in verify(directory).findings)
    assert "unknown key" in text
    assert "unknown key: " not in text
    document.pop("sneaky")
    path.write_text(json.dumps(document))
    text = "\n".join(str(finding) for finding in verify(directory).findings)
    assert "files[0]" in text
    assert "files[1]" in text
    assert "'nope' is not a sha256" in text


@pytest.mark.parametrize(
    ("data", "telling"),
    [
        (b"", "line 1, column 1"),
        (b"{", "line 1, column"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "does not describe a kubexm bundle"),
        (b'{"kind": "kubexm-bundle", "kind": "kubexm-bundle"}', "'kind' is given twice"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_a_manifest_that_is_none(directory: Path, data: bytes, telling: str) -> None:
    (directory / "manifest.json").write_bytes(data)
    text = "\n".join(str(finding) for finding in verify(directory).findings)
    assert telling in text


def test_a_missing_sum_is_named(directory: Path) -> None:
    (directory / "manifest.json.sha256").unlink()
    (finding,) = verify(directory).findings
    assert (finding.kind, finding.path) == (Kind.MISSING, "manifest.json.sha256")


def test_what_is_no_bundle_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    for name, telling in (("empty", "is not a bundle"), ("text", "not a kubexm bundle"), ("none", "is not there")):
        (finding,) = verify(tmp_path / name).findings
        assert telling in str(finding)


def test_truncation_at_every_point_is_found(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    target = tmp_path / "cut.tar.zst"
    points = {*range(0, len(whole), 37), *range(len(whole) - 16, len(whole)), *range(16)}
    for length in sorted(points):
        target.write_bytes(whole[:length])
        (finding,) = verify(target).findings
        assert finding.kind in {Kind.CUT_SHORT, Kind.DAMAGED}, length
        with pytest.raises(AssetError):
            Bundle.open(target)
    target.write_bytes(whole + b"x")
    (finding,) = verify(target).findings
    assert "longer than it should be" in finding.detail


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_flipped_byte_of_an_archive_is_found_unless_it_says_the_same(made: Path, data: st.DataObject) -> None:
    """zstd has bits nobody reads: an archive with another one of those still holds the same manifest and files."""
    whole = bytearray((made / "b.tar.zst").read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    target = made / "flipped.tar.zst"
    target.write_bytes(whole)
    if verify(target).ok:
        with Bundle.open(target) as flipped, Bundle.open(made / "b") as meant:
            assert flipped.manifest == meant.manifest
            for entry in meant.manifest.entries():
                with flipped.open_file(entry.path) as one, meant.open_file(entry.path) as other:
                    assert one.read() == other.read(), entry.path


def test_damage_in_one_frame_hides_nothing_in_the_next(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("archive", "unarchive", "scan"):
        monkeypatch.setattr(f"kubexm.assets.{module}.FRAME", 4096)
    pack(directory, tmp_path / "small.tar.zst")
    whole = bytearray((tmp_path / "small.tar.zst").read_bytes())
    whole[-10] ^= 1  # the last frame
    whole[archive_module.INDEX_HEAD.size + 4000] ^= 1
    (tmp_path / "small.tar.zst").write_bytes(whole)
    findings = verify(tmp_path / "small.tar.zst").findings
    assert len({finding.path for finding in findings}) >= 2


def test_it_is_an_ordinary_archive_too(packed: Path, directory: Path, tmp_path: Path) -> None:
    """Someone without kubexm can still unpack it."""
    if shutil.which("zstd") is None:
        pytest.skip("no zstd program on this machine")
    plain = subprocess.run(["zstd", "-dc", str(packed)], check=True, capture_output=True).stdout
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-x", "-f", "-", "-C", str(tmp_path / "out")], input=plain, check=True, capture_output=True)
    assert verify(tmp_path / "out").ok
    assert not list(tmp_path.glob(".*"))


def member(name: str, data: bytes = b"", kind: bytes = b"0", link: str = "") -> bytes:
    """A tar member with any name and kind at all."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info.tobuf(tarfile.GNU_FORMAT) + data + padding(len(data))


def repacked(work: Path, directory: Path, members: list[bytes] | None, *, order: bool = False) -> Path:
    """The bundle packed once more by someone who adds members of his own."""
    meta = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    inside = sorted(
        str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file() and path.name not in meta
    )
    parts = [tar_header(name, (directory / name).stat().st_size) + (directory / name).read_bytes() for name in inside]
    parts = [part + padding(len(part)) for part in parts]
    parts = parts + (members or []) if order else (members or []) + parts
    stream = b"".join(parts) + END
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(stream)
    head = meta_frame(meta)
    index = index_frame([len(frame)], 0)
    index = index_frame([len(frame)], len(head) + len(index) + len(frame))
    target = work / "crafted.tar.zst"
    target.write_bytes(head + index + frame)
    return target


@pytest.mark.parametrize(
    ("evil", "telling"),
    [
        (member("../escape", b"x"), "'..'"),
        (member("/etc/cron.d/x", b"x"), "absolute"),
        (member("files/a/../../../x", b"x"), "'..'"),
        (member("files/link", kind=b"2", link="/etc"), "a symbolic link"),
        (member("files/hard", kind=b"1", link="/etc/shadow"), "a hard link"),
        (member("files/null", kind=b"3"), "a character device"),
        (member("files/sda", kind=b"4"), "a block device"),
        (member("files/fifo", kind=b"6"), "a named pipe"),
        (member("files/stray", b"x"), "not in the manifest"),
        (member("files/" + "x" * 200, b"x"), "type b'L'"),
    ],
)
def test_members_that_do_not_belong_are_refused(directory: Path, tmp_path: Path, evil: bytes, telling: str) -> None:
    for order in (False, True):
        crafted = repacked(tmp_path, directory, [evil], order=order)
        findings = verify(crafted).findings
        assert any(telling in str(finding) for finding in findings), findings
        with Bundle.open(crafted) as bundle, pytest.raises(AssetError, match="crafted"):
            bundle.extract(tmp_path / "out")
        assert {path.name for path in tmp_path.iterdir()} == {"b", "crafted.tar.zst"}


def test_the_same_name_twice_is_refused(directory: Path, tmp_path: Path) -> None:
    manifest = Manifest.from_json((directory / "manifest.json").read_bytes())
    path = manifest.files[0].path
    crafted = repacked(tmp_path, directory, [member(path, (directory / path).read_bytes())], order=True)
    (finding,) = verify(crafted).findings
    assert "twice" in finding.detail
    with Bundle.open(crafted) as bundle, pytest.raises(AssetError, match="twice"):
        bundle.extract(tmp_path / "out")


def test_a_member_longer_than_the_manifest_says(directory: Path, tmp_path: Path) -> None:
    manifest = Manifest.from_json((directory / "manifest.json").read_bytes())
    victim = directory / manifest.files[0].path
    victim.write_bytes(victim.read_bytes() + bytes(1000))
    (finding,) = verify(repacked(tmp_path, directory, None)).findings
    assert "bytes instead of" in finding.detail


def test_a_bomb_is_not_unpacked(directory: Path, tmp_path: Path) -> None:
    meta = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    zeros = zstandard.ZstdCompressor(write_checksum=True).compress(bytes(archive_module.FRAME))
    head, frames = meta_frame(meta), [zeros] * 2000  # 16 GiB in half a megabyte
    lengths = [len(frame) for frame in frames]
    index = index_frame(lengths, len(head) + archive_module.index_length(len(frames)) + sum(lengths))
    bomb = tmp_path / "bomb.tar.zst"
    bomb.write_bytes(head + index + b"".join(frames))
    assert any("where the manifest describes" in finding.detail for finding in verify(bomb).findings)
    with Bundle.open(bomb) as bundle, pytest.raises(AssetError, match="where the manifest describes"):
        bundle.extract(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_meta_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar.zst"
    writer = zstandard.ZstdCompressor(level=19).compressobj()
    with bomb.open("wb") as out:
        for _ in range(200):
            out.write(writer.compress(bytes(1024 * 1024)))
        out.write(writer.flush())
    (finding,) = verify(bomb).findings
    assert "larger than any real one" in finding.detail


def test_signatures(directory: Path, packed: Path, tmp_path: Path) -> None:
    public, key = keygen(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    _, stranger = keygen(tmp_path / "other")
    for path in (directory, packed):
        assert [finding.kind for finding in verify(path, key=key).findings] == [Kind.SIGNATURE]
        before = path.read_bytes() if path.is_file() else b""
        with Bundle.open(path) as bundle:
            assert bundle.sign(PrivateKey.load(tmp_path / "key")) == key.key_id
        report = verify(path, key=key)
        assert report.ok
        assert report.signed_by == key.key_id
        assert report.signature_checked
        unchecked = verify(path)
        assert unchecked.ok
        assert unchecked.signed_by == key.key_id
        assert not unchecked.signature_checked
        (finding,) = verify(path, key=stranger).findings
        assert "not with" in finding.detail
        if before:
            assert len(path.read_bytes()) > len(before)
    assert public.name == "key.pub"


def test_a_signature_over_another_manifest_is_found(directory: Path, tmp_path: Path) -> None:
    _, key = keygen(tmp_path / "key")
    with Bundle.open(directory) as bundle:
        bundle.sign(PrivateKey.load(tmp_path / "key"))
    other = sample_bundle(tmp_path / "other")
    for _ in range(2):
        with Bundle.open(tmp_path / "other") as bundle:
            bundle.sign(PrivateKey.load(tmp_path / "key"))
    signature = tmp_path / "other/manifest.json.sig"
    document = json.loads(signature.read_bytes())
    document["signature"] = "A" * 86 + "=="
    signature.write_text(json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n")
    (finding,) = verify(tmp_path / "other", key=key).findings
    assert "is wrong" in finding.detail
    signature.write_text("{}")
    (finding,) = verify(tmp_path / "other").findings
    assert finding.kind is Kind.SIGNATURE
    assert other.kubernetes


def test_signing_a_packed_bundle_is_deterministic(packed: Path, made: Path, tmp_path: Path) -> None:
    keygen(tmp_path / "key")
    with Bundle.open(packed) as bundle:
        bundle.sign(PrivateKey.load(tmp_path / "key"))
    copy = Path(shutil.copytree(made / "b", tmp_path / "copy"))
    with Bundle.open(copy) as bundle:
        bundle.sign(PrivateKey.load(tmp_path / "key"))
    pack(copy, tmp_path / "copy.tar.zst")
    assert packed.read_bytes() == (tmp_path / "copy.tar.zst").read_bytes()
