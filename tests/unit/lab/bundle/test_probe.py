"""kubexm's own program in a lab bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kubexm.components.probes.program import PROGRAM, program_version
from kubexm.lab.bundle.artefacts import Workplace
from kubexm.lab.bundle.contents import plan_contents
from kubexm.lab.bundle.probe import ProbeProgram


def test_every_bundle_holds_it_in_the_version_of_its_source() -> None:
    contents = plan_contents(["1.34.4"], arch="arm64")
    (file,) = [file for file in contents.files if file.asset.name == PROGRAM]
    assert file.asset.version == program_version()
    assert file.asset.arch == "arm64"


def test_another_source_is_built_anew() -> None:
    program = ProbeProgram()
    changed = replace(program, files=(*program.files[:-1], ("pods.go", b"package main")))
    assert program.key({"go": "1"}, {}) != changed.key({"go": "1"}, {})


def test_it_is_compiled_from_the_source_in_the_package(place: Workplace, programs_on_path: Callable[..., Path]) -> None:
    programs_on_path(go='while [ "$1" != -o ]; do shift; done; cat ./*.go go.mod > "$2"; echo "$CGO_ENABLED" >> "$2"')
    ProbeProgram().make(place)
    made = (place.out / PROGRAM).read_text()
    assert "func main()" in made
    assert made.endswith("\n0\n")
