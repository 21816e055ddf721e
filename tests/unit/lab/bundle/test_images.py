"""Layers, images and release archives: what is in them, and that making them twice gives the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from kubexm.assets.oci import BlobStore
from kubexm.errors import LabError
from kubexm.lab.bundle.artefacts import Artefact, Entry, Workplace
from kubexm.lab.bundle.cache import BuildCache
from kubexm.lab.bundle.commands import Commands
from kubexm.lab.bundle.images import Image, Layer, ReleaseArchive, image_source
from kubexm.lab.bundle.trees import Empty, Merged, Symlink, Taken, Text, gathered
from tests.unit.lab.bundle.samples import Note

TOOLS = {"zstd": "1", "gzip": "1"}
TOOL = Note(name="tool", text="a program")
BASE = Layer(
    name="base", parts=(Text(path="etc/passwd", content="root:x:0:0\n"), Merged(), Empty(path="tmp", mode=0o1777))
)
OWN = Layer(name="own", parts=(Taken(path="usr/local/bin/tool", artefact=TOOL, file="note"),))
IMAGE = Image(name="image", arch="amd64", layers=(BASE, OWN), entrypoint=("/usr/local/bin/tool",), user="65532")


def made(root: Path, *artefacts: Artefact) -> dict[str, Entry]:
    cache = BuildCache(root)
    entries: dict[str, Entry] = {}
    for artefact in artefacts:
        entries[artefact.name], _ = cache.provide(
            artefact,
            artefact.key(TOOLS, entries),
            needs=entries,
            tools=TOOLS,
            commands=Commands(),
            say=lambda _: None,
        )
    return entries


def layer_members(entry: Entry) -> list[tarfile.TarInfo]:
    data = zstandard.ZstdDecompressor().stream_reader(entry.path("layer.tar.zst").read_bytes()).read()
    about = json.loads(entry.path("layer.json").read_bytes())
    assert about["diffID"] == "sha256:" + hashlib.sha256(data).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getmembers()


def test_an_image_is_what_a_bundle_can_take(tmp_path: Path) -> None:
    entries = made(tmp_path / "cache", TOOL, BASE, OWN, IMAGE)
    stored = image_source(IMAGE, entries).store(BlobStore(tmp_path / "blobs"))
    assert len(stored.blobs) == 4
    config = json.loads((tmp_path / "blobs" / stored.manifest.config.digest.removeprefix("sha256:")).read_bytes())
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["config"]["Entrypoint"] == ["/usr/local/bin/tool"]
    assert config["config"]["User"] == "65532"
    assert "Cmd" not in config["config"]
    assert "/usr/sbin" in config["config"]["Env"][0].removeprefix("PATH=").split(":")
    diff_ids = [json.loads(entries[name].path("layer.json").read_bytes())["diffID"] for name in ("base", "own")]
    assert config["rootfs"]["diff_ids"] == diff_ids
    assert [layer.media_type for layer in stored.manifest.layers] == ["application/vnd.oci.image.layer.v1.tar+zstd"] * 2


def test_layers_hold_their_parts(tmp_path: Path) -> None:
    entries = made(tmp_path / "cache", TOOL, BASE, OWN)
    assert [member.name for member in layer_members(entries["base"])] == [
        *("bin", "etc", "etc/passwd", "lib", "lib64", "sbin", "tmp"),
    ]
    assert [(member.name, member.size) for member in layer_members(entries["own"])][-1] == ("usr/local/bin/tool", 9)


def test_made_twice_in_different_places_it_is_the_same(tmp_path: Path) -> None:
    archive = ReleaseArchive(name="archive", file="tool.tar.gz", parts=(*OWN.parts, *BASE.parts))
    one = made(tmp_path / "one", TOOL, BASE, OWN, IMAGE, archive)
    other = made(tmp_path / "other place", TOOL, BASE, OWN, IMAGE, archive)
    assert {name: entry.content for name, entry in one.items()} == {n: e.content for n, e in other.items()}


def test_two_parts_that_want_one_path_are_a_mistake(place: Workplace) -> None:
    same = Text(path="x", content="1")
    with gathered([same, same], place) as tree:
        assert list(tree) == ["x"]
    with (
        pytest.raises(LabError, match="two parts of a recipe want x"),
        gathered([same, Symlink(path="x", target="y")], place),
    ):
        pass


def test_how_an_image_starts_is_part_of_it(tmp_path: Path) -> None:
    other = replace(IMAGE, name="other", command=("serve",), environment=("A=b",), directory="/srv")
    entries = made(tmp_path / "cache", TOOL, BASE, OWN, IMAGE, other)
    config = json.loads(entries["other"].path("config.json").read_bytes())["config"]
    assert (config["Cmd"], config["WorkingDir"], config["Env"][1:]) == (["serve"], "/srv", ["A=b"])
    assert entries["other"].content != entries["image"].content
