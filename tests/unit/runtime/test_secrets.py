"""Secrets on disk: private, whole, found by name, masked as soon as they are known."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kubexm.errors import KubexmError
from kubexm.redact import MASK, Redactor, Secret, SecretRef
from kubexm.runtime import SecretStore


def store(directory: Path) -> SecretStore:
    return SecretStore(directory, Redactor())


@pytest.mark.parametrize("value", ["hunter22", "a\r\nb\r\n", "-----BEGIN\nkey\n", "größe", " \t"])
def test_what_is_put_in_comes_out_the_same(tmp_path: Path, value: str) -> None:
    ref = store(tmp_path).put("token", Secret(value))
    assert ref == SecretRef("token")
    assert store(tmp_path).get(ref).reveal() == value


def test_files_are_0600_whatever_the_umask(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.put("token", Secret("one"))
    (tmp_path / "token").chmod(0o644)
    kept.put("token", Secret("two"))
    kept.digest(Secret("x"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".digest-key", "token"], "nothing half-written stays"


def test_whatever_goes_in_or_out_is_masked_from_then_on(tmp_path: Path) -> None:
    mask = Redactor()
    SecretStore(tmp_path, mask).put("token", Secret("hunter22"))
    assert mask("hunter22") == MASK
    later = Redactor()
    SecretStore(tmp_path, later).get(SecretRef("token"))
    assert later("hunter22") == MASK


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert SecretRef("token") not in store(tmp_path)
    with pytest.raises(KubexmError, match="the secret 'token' is not in the work directory") as caught:
        store(tmp_path).get(SecretRef("token"))
    assert caught.value.hint


@pytest.mark.parametrize("name", ["", "../passwd", "a/b", ".digest-key", "a b", "/etc/shadow", "x\n"])
def test_a_name_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(KubexmError, match="is not a name for a secret"):
        store(tmp_path).put(name, Secret("x"))
    with pytest.raises(KubexmError, match="is not a name for a secret"):
        store(tmp_path).get(SecretRef(name))


def test_digests_agree_within_a_work_directory_only(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = store(tmp_path / "one")
    assert one.digest(Secret("x")) == store(tmp_path / "one").digest(Secret("x"))
    assert one.digest(Secret("x")) != one.digest(Secret("y"))
    assert one.digest(Secret("x")) != store(tmp_path / "two").digest(Secret("x"))
