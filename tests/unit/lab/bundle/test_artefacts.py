"""Keys: equal for equal inputs, different for any input that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.lab.bundle.artefacts import describe
from kubexm.lab.bundle.gobuild import GoPrograms, Module, Program
from kubexm.lab.bundle.images import Image, Layer, ReleaseArchive
from kubexm.lab.bundle.trees import Empty, Symlink, Taken, Text
from tests.unit.lab.bundle.samples import entry_with

PROGRAMS = GoPrograms(
    name="tool",
    modules=(Module(path="example.com/tool", version="v1.0.0"),),
    programs=(Program(package="example.com/tool", file="tool"),),
)


@pytest.mark.parametrize(
    "changed",
    [
        replace(PROGRAMS, modules=(Module(path="example.com/tool", version="v1.0.1"),)),
        replace(PROGRAMS, modules=(Module(path="example.com/tool", version="v1.0.0", served_as="example.org/tool"),)),
        replace(PROGRAMS, programs=(Program(package="example.com/tool/cmd", file="tool"),)),
        replace(PROGRAMS, tags=("netgo",)),
        replace(PROGRAMS, stamps=(("main.version", "1"),)),
        replace(PROGRAMS, cgo=True),
        replace(PROGRAMS, staging="v0.1.0"),
        replace(PROGRAMS, copies=(("a", "b"),)),
        replace(PROGRAMS, environment=()),
    ],
)
def test_every_field_of_a_recipe_is_in_its_key(changed: GoPrograms) -> None:
    tools = {"go": "go1.26", "gcc": "12"}
    assert changed.key(tools, {}) != PROGRAMS.key(tools, {})


def test_a_tools_version_is_in_the_key_if_the_recipe_uses_the_tool() -> None:
    assert PROGRAMS.key({"go": "go1.26", "gcc": "12"}, {}) == PROGRAMS.key({"go": "go1.26", "gcc": "13"}, {})
    assert PROGRAMS.key({"go": "go1.26"}, {}) != PROGRAMS.key({"go": "go1.27"}, {})
    with_c = replace(PROGRAMS, cgo=True)
    assert with_c.key({"go": "go1.26", "gcc": "12"}, {}) != with_c.key({"go": "go1.26", "gcc": "13"}, {})


def test_the_content_of_what_is_needed_is_in_the_key_and_not_how_it_was_made(tmp_path: Path) -> None:
    layer = Layer(name="layer", parts=(Taken(path="bin/tool", artefact=PROGRAMS, file="tool"),))
    tools = {"zstd": "1.5"}
    one = entry_with(tmp_path / "one", tool=b"1")
    same = replace(entry_with(tmp_path / "same", tool=b"1"), key="made from something else")
    other = entry_with(tmp_path / "other", tool=b"2")
    assert layer.key(tools, {"tool": one}) == layer.key(tools, {"tool": same})
    assert layer.key(tools, {"tool": one}) != layer.key(tools, {"tool": other})


def test_parts_of_different_kinds_with_equal_fields_differ() -> None:
    text = ReleaseArchive(name="a", file="a", parts=(Text(path="x", content="y"),))
    link = ReleaseArchive(name="a", file="a", parts=(Symlink(path="x", target="y"),))
    assert text.recipe != link.recipe
    assert text.recipe != replace(text, parts=(Text(path="x", content="y", mode=0o600),)).recipe
    assert text.recipe != replace(text, parts=(*text.parts, Empty(path="z"))).recipe


def test_a_new_way_of_making_is_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = PROGRAMS.recipe
    monkeypatch.setattr(GoPrograms, "method", GoPrograms.method + 1)
    assert PROGRAMS.recipe != before


def test_what_has_no_one_spelling_cannot_be_in_a_recipe() -> None:
    with pytest.raises(TypeError, match="PosixPath"):
        describe([Path("/etc")])


def test_an_image_needs_its_layers_and_a_layer_what_its_parts_take() -> None:
    part = Taken(path="bin/tool", artefact=PROGRAMS, file="tool")
    layer = Layer(name="layer", parts=(part, replace(part, path="bin/again")))
    assert layer.needs == (PROGRAMS,)
    assert Image(name="image", arch="amd64", layers=(layer,)).needs == (layer,)
