"""The writer: the same inputs give the same bytes; a bundle is there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubexm.assets import BundleWriter, DockerArchive, Manifest, OciLayoutImage, pack
from kubexm.errors import AssetError
from tests.unit.assets.samples import ARCH, KUBERNETES, docker_archive, fill, layer, sample_bundle, tree


def writer(directory: Path, **more: object) -> BundleWriter:
    return BundleWriter(directory, kubernetes=[KUBERNETES], arch=ARCH, **more)  # type: ignore[arg-type]


def add_file(writer: BundleWriter, source: Path, **change: object) -> None:
    values: dict[str, object] = {
        "path": "dl.k8s.io/v1/a",
        "name": "a",
        "component": "kubernetes",
        "version": "v1",
        "roles": ["worker"],
        "origin": "https://dl.k8s.io/v1/a",
        "licence": "Apache-2.0",
    }
    writer.add_file(source, **(values | change))  # type: ignore[arg-type]


def test_same_inputs_same_bytes(tmp_path: Path) -> None:
    sample_bundle(tmp_path / "one")
    sample_bundle(tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    pack(tmp_path / "one", tmp_path / "one.tar.zst", threads=1)
    pack(tmp_path / "two", tmp_path / "two.tar.zst", threads=4)
    assert (tmp_path / "one.tar.zst").read_bytes() == (tmp_path / "two.tar.zst").read_bytes()


def test_order_of_adding_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    manifests = []
    for turn, order in enumerate((("a", "b"), ("b", "a"))):
        with writer(tmp_path / f"bundle{turn}") as made:
            for name in order:
                add_file(made, tmp_path / name, name=name, path=f"x.io/{name}")
            manifests.append(made.finish())
    assert manifests[0].to_json() == manifests[1].to_json()


def test_manifest_describes_every_file(tmp_path: Path) -> None:
    manifest = sample_bundle(tmp_path / "b")
    found = tree(tmp_path / "b")
    described = {entry.path for entry in manifest.entries()}
    assert described | {"manifest.json", "manifest.json.sha256"} == set(found)
    assert all(len(found[entry.path]) == entry.size for entry in manifest.entries())
    assert Manifest.from_json(found["manifest.json"]) == manifest


def test_shared_layers_are_kept_once(tmp_path: Path) -> None:
    manifest = sample_bundle(tmp_path / "b")
    first, second = manifest.images
    assert set(first.blobs) & set(second.blobs)
    assert len(manifest.blobs) == len(set(first.blobs) | set(second.blobs)) == 7


def test_nothing_is_left_when_it_is_not_finished(tmp_path: Path) -> None:
    with writer(tmp_path / "b") as made:
        fill(made, tmp_path / "inputs")
        assert len({path.name for path in tmp_path.iterdir()}) > 1
    assert {path.name for path in tmp_path.iterdir()} == {"inputs"}


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".b.partial/files").mkdir(parents=True)
    (tmp_path / ".b.partial/files/junk").write_bytes(b"junk")
    sample_bundle(tmp_path / "b")
    assert "files/junk" not in tree(tmp_path / "b")
    assert {path.name for path in tmp_path.iterdir()} == {"b", "b-inputs"}


def test_two_writers_at_one_place(tmp_path: Path) -> None:
    with writer(tmp_path / "b"), pytest.raises(AssetError, match="another process is making a bundle"):
        writer(tmp_path / "b")


def test_a_full_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/precious").write_bytes(b"")
    with pytest.raises(AssetError, match="is not empty"):
        writer(tmp_path / "b", replace_existing=True)
    assert (tmp_path / "b/precious").exists()


def test_an_older_bundle_is_replaced_only_when_asked(tmp_path: Path) -> None:
    sample_bundle(tmp_path / "b")
    with pytest.raises(AssetError, match="is not empty"):
        writer(tmp_path / "b")
    (tmp_path / "a").write_bytes(b"a")
    with writer(tmp_path / "b", replace_existing=True) as made:
        add_file(made, tmp_path / "a")
        made.finish()
    assert set(tree(tmp_path / "b")) == {"files/dl.k8s.io/v1/a", "manifest.json", "manifest.json.sha256"}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "a//b", ".hidden", "a/b\nc", "a\\b", "x" * 300])
def test_names_that_could_escape_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with writer(tmp_path / "b") as made, pytest.raises(AssetError, match="cannot be in a bundle"):
        add_file(made, tmp_path / "a", path=path)


def test_same_file_for_two_versions_adds_up(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with BundleWriter(tmp_path / "b", kubernetes=["v1.33.2", KUBERNETES], arch=ARCH) as made:
        add_file(made, tmp_path / "a", kubernetes=[KUBERNETES], roles=["worker"])
        add_file(made, tmp_path / "a", kubernetes=["v1.33.2"], roles=["etcd"])
        manifest = made.finish()
    assert manifest.files[0].kubernetes == ("v1.33.2", KUBERNETES)
    assert manifest.files[0].roles == ("etcd", "worker")


def test_two_contents_for_one_path_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "c").write_bytes(b"c")
    with writer(tmp_path / "b") as made:
        add_file(made, tmp_path / "a")
        with pytest.raises(AssetError, match="two different files"):
            add_file(made, tmp_path / "c")


def test_expected_sha256_is_held_to(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with writer(tmp_path / "b") as made, pytest.raises(AssetError, match="expected sha256 0000"):
        add_file(made, tmp_path / "a", sha256="0" * 64)


def test_links_and_copies_are_the_same_bundle(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    for name, link in (("linked", True), ("copied", False)):
        with writer(tmp_path / name) as made:
            add_file(made, tmp_path / "a", link=link)
            made.finish()
    assert tree(tmp_path / "linked") == tree(tmp_path / "copied")
    assert (tmp_path / "linked/files/dl.k8s.io/v1/a").stat().st_nlink == 2
    assert (tmp_path / "copied/files/dl.k8s.io/v1/a").stat().st_nlink == 1


def add_image(made: BundleWriter, source: DockerArchive | OciLayoutImage) -> None:
    made.add_image(
        source,
        reference="example.com/x:1",
        name="x",
        component="x",
        version="1",
        roles=["worker"],
        origin="here",
        licence="MIT",
    )


def test_image_for_another_architecture_is_refused(tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "x.tar", "example.com/x:1", [layer({"a": b"a"})], arch="arm64")
    with (
        writer(tmp_path / "b") as made,
        pytest.raises(AssetError, match="is for linux/arm64, the bundle for linux/amd64"),
    ):
        add_image(made, DockerArchive(path=archive))


def test_compressed_layers_are_checked_too(tmp_path: Path) -> None:
    good = docker_archive(tmp_path / "good.tar", "example.com/x:1", [layer({"a": b"a"})], compress=True)
    with writer(tmp_path / "b") as made:
        add_image(made, DockerArchive(path=good))
        manifest = made.finish()
    document = json.loads((tmp_path / "b" / "images/blobs/sha256" / manifest.images[0].digest[7:]).read_bytes())
    assert document["layers"][0]["mediaType"].endswith("tar+gzip")
    bad = docker_archive(
        tmp_path / "bad.tar", "example.com/x:1", [layer({"a": b"a"})], compress=True, diff="sha256:" + "0" * 64
    )
    with writer(tmp_path / "c") as made, pytest.raises(AssetError, match=r"0/layer\.tar is damaged"):
        add_image(made, DockerArchive(path=bad))


def test_docker_archive_cut_short(tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "x.tar", "example.com/x:1", [layer({"a": b"a" * 4000})])
    archive.write_bytes(archive.read_bytes()[:3000])
    with writer(tmp_path / "b") as made, pytest.raises(AssetError, match="docker-archive"):
        add_image(made, DockerArchive(path=archive))


def test_image_from_an_oci_layout_keeps_its_digest(tmp_path: Path) -> None:
    manifest = sample_bundle(tmp_path / "b")
    pause = manifest.image("pause")
    with writer(tmp_path / "c") as made:
        add_image(made, OciLayoutImage(directory=tmp_path / "b/images", arch=ARCH, reference=pause.reference))
        copied = made.finish()
    assert copied.images[0].digest == pause.digest
    assert copied.images[0].blobs == pause.blobs


def test_packing_a_damaged_bundle_names_the_file(tmp_path: Path) -> None:
    manifest = sample_bundle(tmp_path / "b")
    victim = tmp_path / "b" / manifest.files[0].path
    victim.write_bytes(b"x" + victim.read_bytes()[1:])
    with pytest.raises(AssetError, match=f"{manifest.files[0].path} is damaged"):
        pack(tmp_path / "b", tmp_path / "b.tar.zst")
    assert not (tmp_path / "b.tar.zst").exists()
    assert not list(tmp_path.glob(".*"))
