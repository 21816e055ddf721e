"""The program that measures: its own tests, and where a built one is found."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import kubexm.components.probes
from kubexm.assets import Bundle
from kubexm.assets.writer import BundleWriter
from kubexm.components.probes.program import PROGRAM, built_program, program_entry, program_version, sources
from kubexm.errors import AssetError

SOURCE = Path(kubexm.components.probes.__file__).parent / "program"
OFFLINE = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go compiler here")


def bundle_with(directory: Path, version: str, content: bytes) -> Bundle:
    """A bundle with one program in this version."""
    source = directory.with_suffix(".program")
    source.write_bytes(content)
    with BundleWriter(directory, kubernetes=("v1.34.4",), arch="amd64") as writer:
        writer.add_file(
            source,
            path=f"kubexm.io/{PROGRAM}",
            name=PROGRAM,
            component=PROGRAM,
            version=version,
            roles=("worker",),
            origin="a test",
            licence="Apache-2.0",
        )
        writer.finish()
    return Bundle.open(directory)


@needs_go
def test_the_programs_own_tests_pass() -> None:
    argv = ["go", "test", "-timeout", "120s", "./..."]
    result = subprocess.run(
        argv, cwd=SOURCE, env={**os.environ, **OFFLINE}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@needs_go
def test_it_is_built_once_offline_and_needs_no_library(tmp_path: Path) -> None:
    program = built_program("amd64", cache_dir=tmp_path)
    assert b"ld-linux" not in program.read_bytes()
    before = program.stat()
    assert built_program("amd64", cache_dir=tmp_path) == program
    assert program.stat() == before
    assert [path.name for path in program.parent.iterdir()] == [program.name]


def test_without_a_compiler_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssetError, match="no Go compiler") as caught:
        built_program("arm64", cache_dir=tmp_path)
    assert "spec.assets.sources" in caught.value.hint


def test_tests_are_not_part_of_it() -> None:
    names = {name for name, _ in sources()}
    assert {"go.mod", "main.go", "causes.go"} <= names
    assert not [name for name in names if name.endswith("_test.go")]


def test_a_bundle_is_asked_for_the_program_of_its_architecture_and_format(tmp_path: Path) -> None:
    ours = bundle_with(tmp_path / "ours", program_version(), b"program")
    found = program_entry(ours, "amd64")
    assert found is not None
    assert ours.open_file(found.path).read() == b"program"
    assert program_entry(ours, "arm64") is None
    assert program_entry(bundle_with(tmp_path / "other", "v0-abc", b"old"), "amd64") is None


def test_it_is_not_built_where_nobody_asked_for_that(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="not built here before"):
        built_program("amd64", cache_dir=tmp_path, build=False)
