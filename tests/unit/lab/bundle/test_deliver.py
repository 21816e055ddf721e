"""A bundle put where the user wants it: all of it or nothing, and nothing of the user's lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.assets.disk import remove_tree
from kubexm.assets.writer import BundleWriter
from kubexm.errors import LabError
from kubexm.lab.bundle.deliver import copy_bundle, pack_bundle


def bundle(directory: Path, text: str = "kubelet") -> Path:
    source = directory.with_name(f"{directory.name}.source")
    source.write_text(text)
    remove_tree(directory)
    with BundleWriter(directory, kubernetes=["v1.34.4"], arch="amd64") as writer:
        writer.add_file(
            source,
            path="dl.k8s.io/kubelet",
            name="kubelet",
            component="kubernetes",
            version="v1.34.4",
            roles=["worker"],
            origin="here",
            licence="MIT",
        )
        writer.finish()
    return directory


def test_a_copy(tmp_path: Path) -> None:
    made = bundle(tmp_path / "made")
    target = tmp_path / "some" / "where"
    assert copy_bundle(made, target) == target
    assert (target / "files/dl.k8s.io/kubelet").read_text() == "kubelet"
    assert [path.name for path in target.parent.iterdir()] == ["where"]


def test_an_older_bundle_is_replaced_and_the_same_one_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    copy_bundle(bundle(tmp_path / "made", "old"), target)
    made = bundle(tmp_path / "made", "new")
    copy_bundle(made, target)
    assert (target / "files/dl.k8s.io/kubelet").read_text() == "new"
    before = (target / "manifest.json").stat().st_ino
    copy_bundle(made, target)
    assert (target / "manifest.json").stat().st_ino == before


def test_a_directory_with_other_things_is_not_touched(tmp_path: Path) -> None:
    made = bundle(tmp_path / "made")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    with pytest.raises(LabError, match="not empty and holds no bundle"):
        copy_bundle(made, tmp_path / "home")
    with pytest.raises(LabError, match="no directory"):
        copy_bundle(made, tmp_path / "home" / "letter")
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def test_one_file(tmp_path: Path) -> None:
    made = bundle(tmp_path / "made")
    one, other = pack_bundle(made, tmp_path / "one.tar.zst"), pack_bundle(made, tmp_path / "other.tar.zst")
    assert one.read_bytes() == other.read_bytes()
    (tmp_path / "d.tar.zst").mkdir()
    with pytest.raises(LabError, match="is a directory"):
        pack_bundle(made, tmp_path / "d.tar.zst")
