"""Which tools are here, and what is said about those that are not."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.bundle.toolchain import Missing, Toolchain, machine_arch, multiarch

Put = Callable[..., Path]


def missing(tool: str) -> Missing:
    found = Toolchain().look(tool)
    assert isinstance(found, Missing)
    return found


def test_a_go_that_is_new_enough(programs_on_path: Put) -> None:
    programs_on_path(alone=True, go="echo go1.99.1; echo sums.example.com")
    assert Toolchain().versions(["go"]) == {"go": "go1.99.1"}


def test_no_go_where_apt_has_none_either(programs_on_path: Put) -> None:
    programs_on_path(alone=True)
    found = missing("go")
    assert (found.reason, found.packages) == ("no Go compiler", ())
    assert "Install Go 1." in found.remedy


def test_no_go_where_apt_has_one_that_will_do_or_will_not(programs_on_path: Put) -> None:
    programs_on_path(alone=True, apt_get="", apt_cache="echo '  Candidate: 2:1.99~1'")
    assert missing("go").packages == ("golang-go",)
    programs_on_path(alone=True, apt_get="", apt_cache="echo '  Candidate: 2:1.19~1'")
    assert missing("go").packages == ()


def test_a_go_that_is_too_old(programs_on_path: Put) -> None:
    programs_on_path(alone=True, go="echo go1.19.8; echo sums.example.com")
    assert missing("go").reason == "go1.19.8 is too old"


def test_a_go_that_verifies_nothing_is_not_used(programs_on_path: Put) -> None:
    programs_on_path(alone=True, go="echo go1.99.1; echo off")
    found = missing("go")
    assert "GOSUMDB is off" in found.reason
    assert "only verified modules are built" in found.remedy


def test_no_c_compiler(programs_on_path: Put) -> None:
    programs_on_path(alone=True)
    assert missing("gcc").packages == ("gcc", "libc6-dev")
    assert missing("libseccomp").packages == ("libseccomp-dev", "pkg-config")


def test_a_c_compiler_without_a_static_c_library(programs_on_path: Put) -> None:
    programs_on_path(alone=True, gcc="echo libc.a")
    assert missing("gcc").reason == "no static C library (libc.a)"


def test_the_libraries_that_are_linked_in_are_part_of_a_compilers_version(
    programs_on_path: Put, tmp_path: Path
) -> None:
    library = tmp_path / "libc.a"
    script = f'case "$1" in --version) echo "gcc 12"; echo more ;; *) echo {library} ;; esac'
    programs_on_path(alone=True, gcc=script)
    versions = set()
    for content in (b"one", b"other"):
        library.write_bytes(content)
        versions.add(Toolchain().versions(["gcc"])["gcc"])
    assert len(versions) == 2
    assert all(version.startswith("gcc 12, libc.a ") for version in versions)


def test_a_machine_without_debians_tools(programs_on_path: Put) -> None:
    programs_on_path(alone=True)
    found = missing("debian")
    assert "no apt-get and no apt-cache and no dpkg-deb" in found.reason
    assert found.packages == ()


def test_all_that_is_missing_is_found_at_once_and_each_once(programs_on_path: Put) -> None:
    programs_on_path(alone=True)
    found = Toolchain().missing(["go", "gcc", "go", "zstd", "gzip"])
    assert [item.tool for item in found] == ["go", "gcc"]
    with pytest.raises(LabError, match="gcc is missing: no C compiler"):
        Toolchain().versions(["zstd", "gcc"])


def test_installing_runs_apt_once_for_all_and_looks_again(
    programs_on_path: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    record = tmp_path / "record"
    directory = programs_on_path(alone=True)
    install = f"""echo "$*" >> {record}
[ "$1" = install ] && printf '#!/bin/sh\\necho go1.99\\necho sums\\n' > {directory}/go && /bin/chmod 755 {directory}/go
exit 0"""
    programs_on_path(alone=True, apt_get=install, apt_cache="echo '  Candidate: 2:1.99~1'")
    tools = Toolchain()
    tools.install(tools.missing(["go", "gcc"]))
    assert record.read_text().splitlines() == [
        "update",
        "install -y --no-install-recommends gcc golang-go libc6-dev",
    ]
    assert tools.look("go") == "go1.99"


def test_an_installation_that_fails_says_what_to_run(programs_on_path: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    programs_on_path(alone=True, sudo='echo "sudo: a password is required" >&2; exit 1', apt_get="", apt_cache="")
    tools = Toolchain()
    with pytest.raises(LabError, match=r"`sudo -n apt-get install .* gcc libc6-dev` exited with 1: sudo: a password"):
        tools.install(tools.missing(["gcc"]))


def test_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert (machine_arch(), multiarch("arm64")) == ("arm64", "aarch64-linux-gnu")
    monkeypatch.setattr(platform, "machine", lambda: "mips")
    with pytest.raises(LabError, match="cannot be built on mips"):
        machine_arch()
