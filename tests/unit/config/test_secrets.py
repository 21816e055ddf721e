from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.apis.v1alpha1 import SecretSource
from kubexm.config import resolve
from kubexm.errors import ConfigError
from kubexm.redact import Secret


def never(_: str) -> str:
    raise AssertionError("nobody was to be asked")


def reveal(text: str, base_dir: Path, **more: str) -> str:
    return resolve(SecretSource.parse(text), base_dir=base_dir, ask=never, environ=more).reveal()


def refused(text: str, base_dir: Path, **more: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        resolve(SecretSource.parse(text), base_dir=base_dir, ask=never, what="sudoPassword of n1", environ=more)
    return caught.value


def test_a_literal_is_itself(tmp_path: Path) -> None:
    assert resolve(SecretSource.parse("hunter2"), base_dir=tmp_path, ask=None) == Secret("hunter2")


def test_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reveal("env:OPS_SUDO", tmp_path, OPS_SUDO="hunter2") == "hunter2"
    monkeypatch.setenv("OPS_SUDO", "from-outside")
    assert resolve(SecretSource.parse("env:OPS_SUDO"), base_dir=tmp_path, ask=None).reveal() == "from-outside"


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    error = refused("env:OPS_SUDO", tmp_path)
    assert error.message == "sudoPassword of n1: the environment variable OPS_SUDO is not set"
    assert "export OPS_SUDO" in error.hint
    assert "is empty" in refused("env:OPS_SUDO", tmp_path, OPS_SUDO="").message


def test_from_a_file_beside_the_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "sudo").write_text("hunter2\n")
    assert reveal("file:./secrets/sudo", tmp_path) == "hunter2"
    assert reveal(f"file:{tmp_path}/secrets/sudo", Path("/")) == "hunter2"


def test_a_file_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "pw").write_text("hunter2")
    assert reveal("file:~/pw", Path("/")) == "hunter2"


def test_only_the_last_newline_goes(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(" two words \r\n")
    assert reveal("file:pw", tmp_path) == " two words "


def test_a_key_keeps_its_newline(tmp_path: Path) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
    (tmp_path / "key").write_text(key)
    assert reveal("file:key", tmp_path) == key


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "dir").mkdir()
    assert refused("file:nope", tmp_path).message == f"sudoPassword of n1: there is no file {tmp_path}/nope"
    assert refused("file:empty", tmp_path).message.endswith("is empty")
    assert refused("file:binary", tmp_path).message.endswith("is not UTF-8 text")
    assert refused("file:large", tmp_path).message.endswith("is too large for a secret")
    assert refused("file:dir", tmp_path).message.endswith("is a directory")
    assert "Not a directory" in refused("file:empty/x", tmp_path).message


def test_a_person_is_asked_for_what_it_is(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(what: str) -> str:
        asked.append(what)
        return "typed"

    secret = resolve(SecretSource.parse("prompt"), base_dir=tmp_path, ask=ask, what="sudo password for ops")
    assert secret.reveal() == "typed"
    assert asked == ["sudo password for ops"]


def test_nobody_to_ask(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no terminal") as caught:
        resolve(SecretSource.parse("prompt"), base_dir=tmp_path, ask=None, what="sudoPassword")
    assert "env:NAME" in caught.value.hint


def test_nothing_entered(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was entered"):
        resolve(SecretSource.parse("prompt"), base_dir=tmp_path, ask=lambda _: "")
