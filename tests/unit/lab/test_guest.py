"""The files inside a host."""

from __future__ import annotations

import os
import subprocess
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

import pytest

from kubexm.lab.flavours import FLAVOURS, GuestFile
from kubexm.lab.guest import IMAGE_FILES, PREPARE, host_files, write_files


@pytest.mark.parametrize("script", [PREPARE, *(f.script for f in FLAVOURS.values() if f.script)])
def test_scripts_are_sound(script: str) -> None:
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def test_programs_in_the_image_are_sound_and_can_be_run() -> None:
    files = {**IMAGE_FILES, **FLAVOURS["defects"].files}
    programs = {path: file for path, file in files.items() if file.content.startswith("#!/bin/sh")}
    assert set(programs) == {"/usr/local/lib/kubexm-lab/setup", "/usr/sbin/swapoff"}
    for file in programs.values():
        assert file.mode & 0o111
        assert subprocess.run(["sh", "-n"], input=file.content, text=True, check=False).returncode == 0


@pytest.mark.parametrize("root_login", [True, False])
def test_root_has_the_key_only_where_root_may_log_in(root_login: bool) -> None:
    files = host_files(
        name="n1",
        machine_id="0" * 32,
        address=IPv4Interface("10.210.0.11/24"),
        gateway=IPv4Address("10.210.0.254"),
        nameserver=IPv4Address("10.210.0.1"),
        authorized_key="ssh-ed25519 AAAA\n",
        host_key=("private", "public"),
        root_login=root_login,
    )
    assert ("/root/.ssh/authorized_keys" in files) is root_login
    assert files["/home/ops/.ssh/authorized_keys"].mode == 0o600
    assert files["/etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert files["/etc/resolv.conf"].content == "nameserver 10.210.0.1\n"
    assert files["/etc/kubexm-lab/network"].content == "ADDRESS=10.210.0.11/24\nGATEWAY=10.210.0.254\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user, which needs root")
def test_files_are_written_with_mode_and_owner_and_never_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc" / "resolv.conf").symlink_to(outside)
    write_files(
        tree,
        {
            "/etc/resolv.conf": GuestFile(content="new"),
            "/home/ops/.ssh/authorized_keys": GuestFile(content="key", mode=0o600),
        },
    )
    assert outside.read_text() == "precious"
    assert (tree / "etc/resolv.conf").read_text() == "new"
    key = tree / "home/ops/.ssh/authorized_keys"
    assert (key.stat().st_mode & 0o777, key.stat().st_uid) == (0o600, 1000)
    assert (key.parent.stat().st_mode & 0o777, key.parent.stat().st_uid) == (0o700, 1000)
