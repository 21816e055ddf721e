"""Reading a bundle: the same from a directory and from an archive, checked on the way, unpacked whole or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubexm.assets import Bundle, ImageArchive, Manifest, PackageSet, assets_for, pack, write_rootfs
from kubexm.assets.layout import blob_path
from kubexm.assets.oci import OCI_LAYER, Descriptor
from kubexm.errors import AssetError
from tests.unit.assets.samples import KUBERNETES, sample_bundle, tree


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    sample_bundle(tmp_path / "work/b")
    return tmp_path / "work/b"


@pytest.fixture
def packed(directory: Path, tmp_path: Path) -> Path:
    pack(directory, tmp_path / "b.tar.zst")
    return tmp_path / "b.tar.zst"


def test_files_read_the_same_from_both_forms(directory: Path, packed: Path) -> None:
    with Bundle.open(directory) as one, Bundle.open(packed) as two:
        assert one.manifest == two.manifest
        assert not one.is_archive
        assert two.is_archive
        for entry in one.manifest.entries():
            with one.open_file(entry.path) as first, two.open_file(entry.path) as second:
                content = first.read()
                assert content == second.read() == (directory / entry.path).read_bytes()
            local = one.local_path(entry.path)
            assert local is not None
            assert local.read_bytes() == content
            assert two.local_path(entry.path) is None
        with pytest.raises(AssetError, match="holds no files/nothing"):
            one.open_file("files/nothing")


def test_reading_a_damaged_file_raises(directory: Path, packed: Path) -> None:
    with Bundle.open(directory) as bundle:
        path = bundle.manifest.files[0].path
        whole = (directory / path).read_bytes()
        for bad in (whole[:-1], whole + b"x", b"?" + whole[1:], b""):
            (directory / path).write_bytes(bad)
            with bundle.open_file(path) as stream, pytest.raises(AssetError, match="is damaged"):
                stream.read()
        (directory / path).unlink()
        with pytest.raises(AssetError, match="cannot be read"):
            bundle.open_file(path)


def test_many_read_at_once_from_one_archive(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("archive", "unarchive", "scan"):
        monkeypatch.setattr(f"kubexm.assets.{module}.FRAME", 1024)
    pack(directory, tmp_path / "small.tar.zst")

    def read(path: str) -> bytes:
        with bundle.open_file(path) as stream:
            return b"".join(iter(lambda: stream.read(700), b""))

    with Bundle.open(tmp_path / "small.tar.zst") as bundle, ThreadPoolExecutor(8) as pool:
        paths = [entry.path for entry in bundle.manifest.entries()] * 10
        for path, content in zip(paths, pool.map(read, paths), strict=True):
            assert content == (directory / path).read_bytes()


def test_extracting_gives_the_directory_back(directory: Path, packed: Path, tmp_path: Path) -> None:
    with Bundle.open(packed) as bundle:
        bundle.extract(tmp_path / "out")
        with pytest.raises(AssetError, match="is there already"):
            bundle.extract(tmp_path / "out")
    assert tree(tmp_path / "out") == tree(directory)
    assert {path.name for path in tmp_path.iterdir()} == {"work", "b.tar.zst", "out"}


def test_a_damaged_archive_leaves_nothing(packed: Path, tmp_path: Path) -> None:
    whole = bytearray(packed.read_bytes())
    whole[-30] ^= 1
    packed.write_bytes(whole)
    with Bundle.open(packed) as bundle, pytest.raises(AssetError, match=r"b\.tar\.zst"):
        bundle.extract(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"work", "b.tar.zst"}


def test_no_room_is_said_before_anything_is_written(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:3], 0, 0, *real[5:])))
    with Bundle.open(packed) as bundle, pytest.raises(AssetError, match=r"no space left.* are needed, 0 B are free"):
        bundle.extract(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"work", "b.tar.zst"}


def test_a_disk_that_fills_up_on_the_way_leaves_nothing(
    packed: Path, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = Path.open

    def full(self: Path, mode: str = "r", *rest: object, **more: object) -> object:
        return Full() if mode == "xb" else real(self, mode, *rest, **more)  # type: ignore[call-overload]

    with Bundle.open(packed) as bundle:
        monkeypatch.setattr(Path, "open", full)
        with pytest.raises(AssetError, match=r"no space left while writing .*out .* needed in all") as caught:
            bundle.extract(tmp_path / "out")
    assert "nothing half-written" in caught.value.hint
    assert {path.name for path in tmp_path.iterdir()} == {"work", "b.tar.zst"}
    monkeypatch.setattr(os, "fsync", lambda _: Full().write(b""))
    with pytest.raises(AssetError, match=r"no space left while writing .*again\.tar\.zst"):
        pack(directory, tmp_path / "again.tar.zst")
    assert {path.name for path in tmp_path.iterdir()} == {"work", "b.tar.zst"}


def names(manifest: Manifest, *roles: str, **more: object) -> tuple[set[str], set[str], set[str]]:
    chosen = assets_for(manifest, roles=roles, arch="amd64", **more)  # type: ignore[arg-type]
    return (
        {file.entry.name for file in chosen.files},
        {image.name for image in chosen.images},
        {package.name for package in chosen.packages},
    )


def test_a_host_gets_what_its_roles_need(directory: Path) -> None:
    with Bundle.open(directory) as bundle:
        manifest = bundle.manifest
    assert names(manifest, "worker") == ({"kubeadm"}, {"pause"}, set())
    assert names(manifest, "etcd") == ({"etcd"}, set(), set())
    assert names(manifest, "controlPlane", "etcd") == ({"kubeadm", "etcd"}, {"pause", "kube-apiserver"}, set())
    assert names(manifest, "worker", target="debian-12-amd64")[2] == {"conntrack", "libmnl0"}
    assert names(manifest, "loadbalancer") == (set(), set(), set())
    assert names(manifest, "controlPlane", features=["binary"]) == (set(), {"pause"}, set())
    chosen = assets_for(manifest, roles=["worker"], arch="amd64", kubernetes=KUBERNETES)
    install = chosen.files[0].install
    assert install is not None
    assert str(install.to) == "/usr/local/bin/kubeadm"
    assert chosen.files[0].entry.sha256


@pytest.mark.parametrize(
    ("change", "telling"),
    [
        ({"arch": "arm64"}, "for amd64, the host is arm64"),
        ({"kubernetes": "v1.33.1"}, r"for Kubernetes v1\.34\.4, not for v1\.33\.1"),
        ({"target": "rocky-9-amd64"}, "no OS packages for rocky-9-amd64"),
        ({"roles": ["wroker"]}, "'wroker' is not a role"),
    ],
)
def test_a_bundle_that_does_not_fit_says_why(directory: Path, change: dict[str, object], telling: str) -> None:
    with Bundle.open(directory) as bundle:
        wanted: dict[str, object] = {"roles": ["worker"], "arch": "amd64"} | change
        with pytest.raises(AssetError, match=telling):
            assets_for(bundle.manifest, **wanted)  # type: ignore[arg-type]


def test_image_archive(directory: Path, packed: Path, tmp_path: Path) -> None:
    with Bundle.open(directory) as one, Bundle.open(packed) as two:
        first, second = ImageArchive(one, one.manifest.images), ImageArchive(two, reversed(two.manifest.images))
        first.write(tmp_path / "one.tar")
        second.write(tmp_path / "two.tar")
        assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
        assert (tmp_path / "one.tar").stat().st_size == first.size
        assert first.identity == second.identity
        assert ImageArchive(one, one.manifest.images[:1]).identity != first.identity
        shared = {digest for image in one.manifest.images for digest in image.blobs}
        with tarfile.open(tmp_path / "one.tar") as archive:
            members = archive.getnames()
            assert sorted(members) == sorted({*members})
            assert len([name for name in members if name.startswith("blobs/")]) == len(shared)
            content = archive.extractfile("index.json")
            assert content is not None
            index = json.load(content)
        assert {item["annotations"]["io.containerd.image.name"] for item in index["manifests"]} == {
            image.reference for image in one.manifest.images
        }
        victim = directory / blob_path(one.manifest.images[0].blobs[-1])
        victim.write_bytes(b"?" + victim.read_bytes()[1:])
        with pytest.raises(AssetError, match="is damaged"):
            first.write(tmp_path / "three.tar")
        assert not (tmp_path / "three.tar").exists()
        with pytest.raises(AssetError, match="at least one"):
            ImageArchive(one, [])


def test_rootfs_lays_layers_over_each_other(tmp_path: Path) -> None:
    def tar(*members: tuple[str, bytes, bytes, str]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, kind, data, link in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o4755
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()

    blobs = {
        "a": tar(
            ("usr", b"5", b"", ""),
            ("usr/bin/tool", b"0", b"old", ""),
            ("etc/gone", b"0", b"x", ""),
            ("opt/dir/deep", b"0", b"x", ""),
            ("opt/dir/kept", b"0", b"x", ""),
            ("dev/null", b"3", b"", ""),
        ),
        "b": tar(
            ("usr/bin/tool", b"0", b"new", ""),
            ("usr/bin/twin", b"1", b"", "usr/bin/tool"),
            ("lib", b"2", b"", "usr/lib"),
            ("etc/.wh.gone", b"0", b"", ""),
            ("opt/dir/.wh..wh..opq", b"0", b"", ""),
            ("opt/dir/fresh", b"0", b"y", ""),
        ),
    }
    layers = [Descriptor(media_type=OCI_LAYER, digest=name, size=0) for name in blobs]
    for name in ("one", "two"):
        write_rootfs(layers, lambda digest: io.BytesIO(blobs[digest]), tmp_path / f"{name}.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert set(archive.getnames()) == {"usr", "usr/bin/tool", "usr/bin/twin", "lib", "opt/dir/fresh"}
        for name in ("usr/bin/tool", "usr/bin/twin"):
            content = archive.extractfile(name)
            assert content is not None
            assert content.read() == b"new"
            assert archive.getmember(name).mode == 0o755
    evil = {"x": tar(("../../etc/passwd", b"0", b"x", ""))}
    with pytest.raises(AssetError, match="leaves the image"):
        write_rootfs(
            [Descriptor(media_type=OCI_LAYER, digest="x", size=0)],
            lambda digest: io.BytesIO(evil[digest]),
            tmp_path / "evil.tar.gz",
        )
    assert not (tmp_path / "evil.tar.gz").exists()


def test_a_package_set_must_hold_what_was_requested() -> None:
    with pytest.raises(AssetError, match="lacks what was requested: socat"):
        PackageSet(target="debian-12-amd64", requested=("socat",), packages=())
