"""Keys, and the ssh command line that uses them."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from kubexm.lab.access import Access

_ADDRESS = IPv4Address("10.210.0.11")


def test_credentials_are_made_once_and_nobody_else_can_read_them(tmp_path: Path) -> None:
    access = Access(folder=tmp_path)
    access.make("kubexm lab test")
    access.write_known_hosts({"n1": _ADDRESS})
    first = access.private_key.read_text(), access.sudo_password(), access.host_key("n1")
    access.make("kubexm lab test")
    assert (access.private_key.read_text(), access.sudo_password(), access.host_key("n1")) == first
    for file in (access.private_key, access.sudo_password_file, tmp_path / "host-keys" / "n1"):
        assert file.stat().st_mode & 0o077 == 0
    assert len(access.sudo_password()) >= 20


def test_half_a_key_pair_is_made_anew(tmp_path: Path) -> None:
    access = Access(folder=tmp_path)
    access.private_key.write_text("half")
    access.make("kubexm lab test")
    assert access.public_key().startswith("ssh-ed25519 ")
    assert "PRIVATE KEY" in access.private_key.read_text()


def test_known_hosts_name_each_host_by_address_and_name(tmp_path: Path) -> None:
    access = Access(folder=tmp_path)
    access.write_known_hosts({"n1": _ADDRESS, "n2": IPv4Address("10.210.0.12")})
    for name in ("n1", "10.210.0.12"):
        found = subprocess.run(
            ["ssh-keygen", "-F", name, "-f", access.known_hosts], capture_output=True, text=True, check=True
        )
        assert "ssh-ed25519" in found.stdout


@pytest.mark.parametrize(
    ("command", "tail"),
    [
        ((), []),
        (("ls | wc -l",), ["--", "ls | wc -l"]),
        (("printf", "%s", "a b; rm -rf $HOME"), ["--", "printf %s 'a b; rm -rf $HOME'"]),
        (("echo", ""), ["--", "echo ''"]),
    ],
)
def test_one_word_is_a_shell_line_and_several_are_exact_arguments(
    tmp_path: Path, command: tuple[str, ...], tail: list[str]
) -> None:
    words = Access(folder=tmp_path).ssh_command("root", _ADDRESS, command)
    assert words[words.index("-l") :] == ["-l", "root", "10.210.0.11", *tail]


def test_ssh_reads_the_options_as_they_are_meant(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with 100%"
    folder.mkdir()
    access = Access(folder=folder)
    access.make("kubexm lab test")
    command = access.ssh_command("root", _ADDRESS)
    shown = subprocess.run([*command[:1], "-G", *command[1:]], capture_output=True, text=True, check=True).stdout
    settings = dict(line.split(" ", 1) for line in shown.splitlines() if " " in line)
    assert settings["identityfile"].replace("%%", "%") == str(access.private_key)
    assert settings["userknownhostsfile"].replace("%%", "%") == str(access.known_hosts)
    assert settings["globalknownhostsfile"] == "/dev/null"
    assert settings["stricthostkeychecking"] == "true"
    assert settings["user"] == "root"
