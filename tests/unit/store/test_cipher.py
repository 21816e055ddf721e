"""Sealing: only with the key, only at the place, only if untouched; and key files nobody else can read."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.errors import StoreError
from kubexm.store.cipher import KEY_VARIABLE, Keyring, new_key, read_keys, write_keys


@given(st.binary(max_size=300), st.text(max_size=30), st.data())
def test_what_is_sealed_opens_only_whole_and_in_its_place(content: bytes, place: str, data: st.DataObject) -> None:
    ring = Keyring([new_key()])
    sealed = ring.seal(content, place)
    assert ring.open(sealed, place) == content
    assert ring.seal(content, place) != sealed, "a nonce is never used twice"
    with pytest.raises(StoreError):
        ring.open(sealed, place + "x")
    spot = data.draw(st.integers(0, len(sealed) - 1))
    with pytest.raises(StoreError):
        ring.open(sealed[:spot] + bytes([sealed[spot] ^ 1]) + sealed[spot + 1 :], place)
    with pytest.raises(StoreError):
        Keyring([new_key()]).open(sealed, place)


def test_an_older_key_opens_and_the_first_one_seals() -> None:
    old, new = new_key(), new_key()
    sealed = Keyring([old]).seal(b"x", "p")
    both = Keyring([new, old])
    assert both.open(sealed, "p") == b"x"
    assert not both.is_current(sealed)
    assert both.is_current(both.seal(b"x", "p"))


def test_a_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"
    sealed = Keyring.load(path, {}).seal(b"x", "p")
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keyring.load(path, {}).open(sealed, "p") == b"x"
    path.chmod(0o640)
    with pytest.raises(StoreError, match="others can read this key") as caught:
        Keyring.load(path, {})
    assert "chmod 600" in caught.value.hint


def test_keys_of_the_environment_come_before_the_file(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    both = ",".join(base64.b64encode(key).decode() for key in (new, old))
    ring = Keyring.load(tmp_path / "key", {KEY_VARIABLE: both})
    assert not (tmp_path / "key").exists()
    assert Keyring([new]).open(ring.seal(b"x", "p"), "p") == b"x"
    assert ring.open(Keyring([old]).seal(b"x", "p"), "p") == b"x"


@pytest.mark.parametrize("text", ["", "# nothing\n", "not base64!\n", "c2hvcnQ=\n", "ä\n"])
def test_what_is_no_key_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(StoreError) as caught:
        Keyring.load(path, {})
    assert "c2hvcnQ" not in caught.value.message
    assert "Keyring" not in repr(caught.value)


def test_keys_are_not_shown(tmp_path: Path) -> None:
    key = new_key()
    write_keys(tmp_path / "key", [key])
    assert read_keys(tmp_path / "key") == [key]
    assert base64.b64encode(key).decode() not in repr(Keyring([key]))
