"""The script that keeps a host powered on, and how its processes are told from others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kubexm.lab.cgroups import Hierarchy, Subtree
from kubexm.lab.machine import Machine


def test_the_launcher_is_a_sound_script_whatever_the_paths(tmp_path: Path) -> None:
    machine = _machine(tmp_path / "it's $HOME `x`; a:b")
    script = machine._script()
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_nspawn_gets_what_kubernetes_needs(tmp_path: Path) -> None:
    script = _machine(tmp_path)._script()
    for option in (
        "--register=no",
        "--keep-unit",
        "--boot",
        "--capability=all",
        "--system-call-filter=@known",
        "--network-bridge=kx0001",
        "--resolv-conf=off",
        "--link-journal=no",
        "--console=read-only",
        "--machine=kx0001-n1",
        "--hostname=n1",
        ":/var/lib/containerd",
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network",
    ):
        assert option in script


def test_a_launcher_that_is_gone_is_off(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert not machine.is_on
    with subprocess.Popen(["sleep", "600"]) as process:
        started = _start_time(process.pid)
        _note(tmp_path, f"{process.pid} {started}")
        assert machine.is_on
        process.kill()
        process.wait()
    assert not machine.is_on


def test_another_process_with_the_same_number_is_not_the_launcher(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as process:
        _note(tmp_path, f"{process.pid} {int(_start_time(process.pid)) - 1}")
        assert not machine.is_on
        machine.kill()
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("content", ["", "x", "1", "a b c", "99999999 1"])
def test_a_note_that_says_nothing_is_off(tmp_path: Path, content: str) -> None:
    _note(tmp_path, content)
    assert not _machine(tmp_path).is_on


def test_the_last_words_of_a_console(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert machine.last_words() == ""
    machine.console.write_bytes(b"one\n\n two \nthree \xff\n\nfour\n")
    assert machine.last_words(2) == "three \N{REPLACEMENT CHARACTER} | four"


def _machine(folder: Path) -> Machine:
    group = Subtree(path="g", trees=(Hierarchy(root=folder / "cgroup", version=1),))
    return Machine(
        name="n1",
        unique_name="kx0001-n1",
        folder=folder,
        root=folder / "root",
        binds={folder / "disk" / "containerd": "/var/lib/containerd"},
        bridge="kx0001",
        link="vb-kx0001-n1",
        group=group.child("n1"),
        launcher_group=group.child("n1.boot"),
    )


def _note(folder: Path, content: str) -> None:
    (folder / "process").write_text(content)


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
