"""known_hosts, as OpenSSH reads it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import asyncssh
import pytest

from kubexm.connector import ConnectionSettings
from kubexm.connector.hostkeys import HostKeys, known_hosts_file

ED, RSA = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-rsa", key_size=2048)


def line(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


def hashed(name: str) -> str:
    salt = b"0" * 20
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def settings(file: Path, address: str = "n1.example", port: int = 22) -> ConnectionSettings:
    return ConnectionSettings(address=address, port=port, known_hosts=file)


@pytest.mark.parametrize(
    ("patterns", "address", "port", "found"),
    [
        ("n1.example", "n1.example", 22, True),
        ("n1.example", "n1.example", 2222, False),
        ("[n1.example]:2222", "n1.example", 2222, True),
        ("[n1.example]:2222", "n1.example", 22, False),
        ("other,n1.example", "n1.example", 22, True),
        ("*.example", "n1.example", 22, True),
        ("*.example,!n1.example", "n1.example", 22, False),
        ("N1.Example", "n1.example", 22, True),
        ("n?.example", "n1.example", 22, True),
        ("n[12].example", "n1.example", 22, False),
        (hashed("n1.example"), "n1.example", 22, True),
        (hashed("[n1.example]:2222"), "n1.example", 2222, True),
        (hashed("n2.example"), "n1.example", 22, False),
        ("|1|broken", "n1.example", 22, False),
        ("|1|@@|@@", "n1.example", 22, False),
        ("fd00::1", "fd00::1", 22, True),
        ("[fd00::1]:23", "fd00::1", 23, True),
    ],
)
def test_who_a_line_speaks_of(tmp_path: Path, patterns: str, address: str, port: int, *, found: bool) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"# comment\n\n{patterns} {line(ED)} a comment\n")
    entries = HostKeys().of(settings(file, address, port))
    assert bool(entries) is found
    if found:
        assert entries[0].place == f"{file}:3"
        assert entries[0].key == ED.convert_to_public()


def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(
        f"n1.example\n@nonsense n1.example {line(ED)}\nn1.example ssh-future AAAA\nn1.example {line(RSA)}\n@revoked\n"
    )
    (entry,) = HostKeys().of(settings(file))
    assert entry.line == 4


def test_authorities_hold_for_every_port(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"@cert-authority *.example {line(ED)}\nn1.example {line(RSA)}\n")
    (entry,) = HostKeys().of(settings(file, port=2222))
    assert entry.marker == "cert-authority"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file, keys = tmp_path / "known_hosts", HostKeys()
    assert keys.of(settings(file)) == []
    file.write_text(f"n1.example {line(ED)}\n")
    assert len(keys.of(settings(file))) == 1
    file.write_text(f"n1.example {line(ED)}\nn1.example {line(RSA)}\n")
    assert len(keys.of(settings(file))) == 2


def test_known_kinds_are_asked_for_first(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"n1.example {line(RSA)}\n")
    known = HostKeys().of(settings(file))
    assert HostKeys.algorithms(known)[:2] == ["rsa-sha2-512", "rsa-sha2-256"]
    assert "ssh-ed25519" in HostKeys.algorithms(known)
    assert HostKeys.algorithms([])[0] == "ssh-ed25519"
    assert "ssh-ed25519" not in HostKeys.algorithms([], frozenset({"ssh-ed25519"}))
    file.write_text(f"@cert-authority * {line(ED)}\n")
    assert HostKeys.algorithms(HostKeys().of(settings(file)))[0] == "ssh-ed25519-cert-v01@openssh.com"


def test_recording_keeps_what_is_there(tmp_path: Path) -> None:
    file, keys = tmp_path / "new" / "known_hosts", HostKeys()
    keys.record(settings(file), ED.convert_to_public())
    keys.record(settings(file), ED.convert_to_public())
    keys.record(settings(file, port=2222), RSA.convert_to_public())
    assert [text.split()[0] for text in file.read_text().splitlines()] == ["n1.example", "[n1.example]:2222"]


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert known_hosts_file(ConnectionSettings(address="x")) == tmp_path / ".ssh/known_hosts"


def test_settings_never_show_secrets() -> None:
    from kubexm.redact import Secret

    shown = repr(ConnectionSettings(address="x", password=Secret("hunter2"), sudo_password=Secret("hunter3")))
    assert "hunter" not in shown
    assert str(ConnectionSettings(address="fd00::1", user="ops", port=23)) == "ops@[fd00::1]:23"
